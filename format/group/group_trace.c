// SPDX-License-Identifier: Apache-2.0
#include "group_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "all_bytes.h"
#include "columns.h"
#include "group_content.h"
#include "output_file.h"

// So many rows of layouts, and states of pages, a file may make a reader keep, beside those for each of its bytes.
enum { ROWS_FREE = 1 << 20, ROWS_PER_BYTE = 64, STATES_FREE = 1 << 24, STATES_PER_BYTE = 1024 };

struct ht_group_trace {
    struct ht_trace_reader *reader;
    struct ht_unpacker *unpacker;
    struct ht_group_content content;
    char *context;
};

// The i-th section's columns, until the next call. Returns 0, or -1 with error.
static int read_columns(struct ht_group_trace *group, size_t i, struct ht_columns *columns,
                        struct ht_error *error) {
    const struct ht_section_header *header;
    const void *payload;
    if (ht_trace_stored(group->reader, i, &header, &payload, error)) return -1;
    *columns = (struct ht_columns){payload, header->payload_bytes, header->columns};
    return 0;
}

static int no_memory(const struct ht_group_trace *group, struct ht_error *error) {
    return ht_error_memory(error, ht_trace_path(group->reader), "cannot read the trace of a group");
}

// ---- the context ----

// Column 1 as bytes, `most` at most, with a zero behind them. NULL with *wrong.
static uint8_t *read_bytes(struct ht_group_trace *group, const struct ht_columns *columns, size_t most,
                           size_t *count, const char **wrong) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    *wrong = NULL;
    if (!ht_find_column(columns, 1, &entry, &stored) || entry.values > most) {
        *wrong = ht_found("expected a column of bytes within the format's limits, at most", most);
        return NULL;
    }
    uint8_t *bytes = malloc((size_t)entry.values + 1);
    *wrong = bytes ? ht_unpack_bytes(group->unpacker, &entry, stored, bytes) : "not enough memory";
    if (*wrong) {
        free(bytes);
        return NULL;
    }
    bytes[entry.values] = 0;
    *count = entry.values;
    return bytes;
}

static const char *parse_context(struct ht_group_trace *group, size_t bytes) {
    if (strlen(group->context) != bytes) return "expected a text without zero bytes";
    json_t *context = json_loads(group->context, JSON_REJECT_DUPLICATES, NULL);
    const json_t *content = json_object_get(context, "group");
    const char *wrong = json_is_object(content) ? ht_group_content_read(content, &group->content)
                                                : "expected a context with a group";
    json_decref(context);
    return wrong;
}

static int read_context(struct ht_group_trace *group, struct ht_error *error) {
    size_t sections = ht_trace_sections(group->reader), found = sections, bytes = 0;
    struct ht_columns columns;
    const char *wrong;
    for (size_t i = 0; i < sections; i++) {
        if (ht_trace_section(group->reader, i)->kind != HT_SECTION_CONTEXT) continue;
        if (found < sections)
            return ht_trace_bad_place(group->reader, i, error, "expected one context, found another");
        found = i;
    }
    if (found == sections)
        return ht_error_input(error, ht_trace_path(group->reader), sizeof(struct ht_trace_header),
                              "expected the context of a group, found none");
    if (read_columns(group, found, &columns, error)) return -1;
    group->context = (char *)read_bytes(group, &columns, HT_GROUP_CONTEXT_BYTES_MAX, &bytes, &wrong);
    if (group->context) wrong = parse_context(group, bytes);
    return wrong ? ht_trace_bad_place(group->reader, found, error, wrong) : 0;
}

// ---- which sections there are ----

struct found_sections {
    uint64_t *layout_rows;  // of each process
    uint64_t *states;       // of each process at each moment
    bool *member;
    uint64_t all_rows, all_states;
};

static const char *note_section(const struct ht_group_content *content, const struct ht_section_place *place,
                                struct found_sections *found) {
    bool is_states = place->kind == HT_SECTION_PAGE_STATES;
    if (place->kind == HT_SECTION_EVENTS) return "expected no events in the trace of a group itself";
    if (place->kind < HT_SECTION_MEMBER || place->kind > HT_SECTION_PAGE_STATES) return NULL;
    if (place->first_event >= content->processes)
        return ht_found("expected the number of a process", place->first_event);
    if (is_states && place->first_time >= content->moments)
        return ht_found("expected the number of a moment", place->first_time);
    if (place->kind == HT_SECTION_MEMBER) found->member[place->first_event] = true;
    if (place->kind == HT_SECTION_LAYOUT) {
        found->layout_rows[place->first_event] += place->rows;
        found->all_rows += place->rows;
    }
    if (is_states) {
        found->states[place->first_event * content->moments + place->first_time] += place->rows;
        found->all_states += place->rows;
    }
    return NULL;
}

// Do layouts and states have as many rows as the context says?
static const char *check_counts(const struct ht_group_trace *group, const struct found_sections *found) {
    const struct ht_group_content *content = &group->content;
    uint64_t bytes = ht_trace_file_bytes(group->reader);
    if (found->all_rows > ROWS_FREE + ROWS_PER_BYTE * bytes ||
        found->all_states > STATES_FREE + STATES_PER_BYTE * bytes)
        return "expected fewer rows of layouts and page states";
    for (uint32_t i = 0; i < content->processes; i++) {
        if (!found->member[i])
            return ht_found("expected the trace of each process, but there is none of number", i);
        if (found->layout_rows[i] != content->process[i].inherited)
            return ht_found("expected a layout of as many blocks as a process inherited",
                            found->layout_rows[i]);
        for (uint32_t k = 0; k < content->moments; k++) {
            uint64_t states = found->states[(size_t)i * content->moments + k];
            bool there = content->presence[(size_t)i * content->moments + k].there;
            if (states != (there ? content->layout_pages[i] : 0))
                return ht_found("expected as many page states as a layout has pages", states);
        }
    }
    return NULL;
}

static int check_sections(const struct ht_group_trace *group, struct ht_error *error) {
    const struct ht_group_content *content = &group->content;
    struct found_sections found = {
        .layout_rows = calloc(content->processes, sizeof *found.layout_rows),
        .states = calloc((size_t)content->processes * content->moments + 1, sizeof *found.states),
        .member = calloc(content->processes, sizeof *found.member)};
    int status = found.layout_rows && found.states && found.member ? 0 : no_memory(group, error);
    for (size_t i = 0; i < ht_trace_sections(group->reader) && !status; i++) {
        const char *wrong = note_section(content, ht_trace_section(group->reader, i), &found);
        if (wrong) status = ht_trace_bad_place(group->reader, i, error, wrong);
    }
    const char *wrong = status ? NULL : check_counts(group, &found);
    if (wrong) status = ht_trace_bad_section(group->reader, HT_SECTION_CONTEXT, error, wrong);
    free(found.layout_rows);
    free(found.states);
    free(found.member);
    return status;
}

static int read_group(struct ht_group_trace *group, struct ht_error *error) {
    if (!(group->unpacker = ht_unpacker_new())) return no_memory(group, error);
    if (ht_trace_truncated(group->reader)) {
        ht_trace_report_truncated(group->reader, error);
        return -1;
    }
    return read_context(group, error) ? -1 : check_sections(group, error);
}

struct ht_group_trace *ht_group_open(const char *path, struct ht_error *error) {
    struct ht_trace_reader *reader = ht_trace_open_any(path, error);
    if (!reader) return NULL;
    if (!(ht_trace_features(reader) & HT_TRACE_FEATURE_GROUP)) {
        ht_trace_close(reader);
        error->status = 0;
        return NULL;
    }
    struct ht_group_trace *group = calloc(1, sizeof *group);
    if (!group) {
        ht_error_memory(error, path, "cannot open");
        ht_trace_close(reader);
        return NULL;
    }
    group->reader = reader;
    if (!read_group(group, error)) return group;
    ht_group_close(group);
    return NULL;
}

void ht_group_close(struct ht_group_trace *group) {
    if (!group) return;
    ht_trace_close(group->reader);
    ht_unpacker_free(group->unpacker);
    ht_group_content_free(&group->content);
    free(group->context);
    free(group);
}

uint32_t ht_group_processes(const struct ht_group_trace *group) { return group->content.processes; }
uint32_t ht_group_moments(const struct ht_group_trace *group) { return group->content.moments; }
uint32_t ht_group_page_bytes(const struct ht_group_trace *group) { return group->content.page_bytes; }
const char *ht_group_context_json(const struct ht_group_trace *group) { return group->context; }
uint64_t ht_group_file_bytes(const struct ht_group_trace *group) {
    return ht_trace_file_bytes(group->reader);
}

const struct ht_group_process *ht_group_process(const struct ht_group_trace *group, uint32_t process) {
    return &group->content.process[process];
}
const struct ht_group_moment *ht_group_moment(const struct ht_group_trace *group, uint32_t moment) {
    return &group->content.moment[moment];
}
const struct ht_group_presence *ht_group_presence(const struct ht_group_trace *group, uint32_t process,
                                                  uint32_t moment) {
    return &group->content.presence[(size_t)process * group->content.moments + moment];
}

// ---- members ----

static int copy_member(struct ht_group_trace *group, uint32_t process, int fd, struct ht_error *error) {
    for (size_t i = 0; i < ht_trace_sections(group->reader); i++) {
        const struct ht_section_place *place = ht_trace_section(group->reader, i);
        struct ht_columns columns;
        const char *wrong;
        size_t count;
        if (place->kind != HT_SECTION_MEMBER || place->first_event != process) continue;
        if (read_columns(group, i, &columns, error)) return -1;
        uint8_t *part = read_bytes(group, &columns, HT_TEXT_BYTES_MAX, &count, &wrong);
        if (!part) return ht_trace_bad_place(group->reader, i, error, wrong);
        bool written = ht_write_all(fd, part, count);
        free(part);
        if (!written)
            return ht_error_system(error, ht_trace_path(group->reader), "cannot unpack a process's trace");
    }
    return 0;
}

// Every child was forked within what its parent did.
static int check_member(struct ht_group_trace *group, uint32_t process, const struct ht_trace_reader *member,
                        struct ht_error *error) {
    const struct ht_group_content *content = &group->content;
    if (ht_trace_truncated(member))
        return ht_trace_bad_section(group->reader, HT_SECTION_MEMBER, error,
                                    "expected whole traces of processes");
    for (uint32_t i = process + 1; i < content->processes; i++)
        if (content->process[i].parent == process &&
            content->process[i].fork_event > ht_trace_records(member))
            return ht_trace_bad_section(
                group->reader, HT_SECTION_CONTEXT, error,
                ht_found("expected a fork within the parent's events", content->process[i].fork_event));
    if (content->process[process].inherited > ht_trace_records(member))
        return ht_trace_bad_section(
            group->reader, HT_SECTION_CONTEXT, error,
            ht_found("expected a trace that has what it inherited", content->process[process].inherited));
    return 0;
}

struct ht_trace_reader *ht_group_member_open(struct ht_group_trace *group, uint32_t process,
                                             struct ht_error *error) {
    char *name;
    int fd = temporary_file_open();
    if (asprintf(&name, "%s: process %" PRIu32, ht_trace_path(group->reader),
                 group->content.process[process].pid) < 0)
        name = NULL;
    struct ht_trace_reader *member = NULL;
    if (!name || fd < 0)
        ht_error_system(error, ht_trace_path(group->reader), "cannot unpack a process's trace");
    else if (!copy_member(group, process, fd, error)) member = ht_trace_open_in(fd, name, error);
    if (member && check_member(group, process, member, error)) {
        ht_trace_close(member);
        member = NULL;
    }
    if (fd >= 0) close(fd);
    free(name);
    return member;
}

// ---- layouts and states ----

static const char *take_layout(struct ht_group_trace *group, const struct ht_columns *columns, size_t rows,
                               struct ht_group_layout *layout) {
    uint32_t *offset = malloc((rows + 1) * sizeof *offset), *page = layout->page + layout->blocks;
    const char *wrong = offset ? ht_column_u32(group->unpacker, columns, 1, page, rows) : "not enough memory";
    if (!wrong) wrong = ht_column_u32(group->unpacker, columns, 2, offset, rows);
    for (size_t i = 0; i < rows && !wrong; i++) {
        if (page[i] >= layout->pages) wrong = ht_found("expected a page of the layout", page[i]);
        else if (offset[i] >= group->content.page_bytes)
            wrong = ht_found("expected an offset in a page", offset[i]);
        layout->offset[layout->blocks + i] = (uint16_t)offset[i];
    }
    layout->blocks += rows;
    free(offset);
    return wrong;
}

int ht_group_layout_read(struct ht_group_trace *group, uint32_t process, struct ht_group_layout *layout,
                         struct ht_error *error) {
    size_t blocks = (size_t)group->content.process[process].inherited;
    *layout = (struct ht_group_layout){.page = malloc((blocks + 1) * sizeof *layout->page),
                                       .offset = malloc((blocks + 1) * sizeof *layout->offset),
                                       .pages = group->content.layout_pages[process]};
    int status = layout->page && layout->offset ? 0 : no_memory(group, error);
    for (size_t i = 0; i < ht_trace_sections(group->reader) && !status; i++) {
        const struct ht_section_place *place = ht_trace_section(group->reader, i);
        struct ht_columns columns;
        if (place->kind != HT_SECTION_LAYOUT || place->first_event != process) continue;
        status = read_columns(group, i, &columns, error);
        const char *wrong = status ? NULL : take_layout(group, &columns, place->rows, layout);
        if (wrong) status = ht_trace_bad_place(group->reader, i, error, wrong);
    }
    if (status) ht_group_layout_free(layout);
    return status;
}

void ht_group_layout_free(struct ht_group_layout *layout) {
    free(layout->page);
    free(layout->offset);
    *layout = (struct ht_group_layout){0};
}

static const char *take_states(struct ht_group_trace *group, const struct ht_columns *columns, size_t rows,
                               uint8_t *states) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    if (!ht_find_column(columns, 1, &entry, &stored) || entry.values != rows)
        return "expected a state for each row";
    const char *wrong = ht_unpack_bytes(group->unpacker, &entry, stored, states);
    for (size_t i = 0; i < rows && !wrong; i++)
        if (states[i] > (HT_PAGE_STATE_BITS | HT_PAGE_CALLED))
            wrong = ht_found("expected a page's state", states[i]);
    return wrong;
}

uint8_t *ht_group_page_states(struct ht_group_trace *group, uint32_t process, uint32_t moment,
                              struct ht_error *error) {
    size_t pages = group->content.layout_pages[process], at = 0;
    error->status = 0;
    if (!ht_group_presence(group, process, moment)->there) return NULL;
    uint8_t *states = malloc(pages + 1);
    int status = states ? 0 : no_memory(group, error);
    for (size_t i = 0; i < ht_trace_sections(group->reader) && !status; i++) {
        const struct ht_section_place *place = ht_trace_section(group->reader, i);
        struct ht_columns columns;
        if (place->kind != HT_SECTION_PAGE_STATES || place->first_event != process ||
            place->first_time != moment)
            continue;
        status = read_columns(group, i, &columns, error);
        const char *wrong = status ? NULL : take_states(group, &columns, place->rows, states + at);
        if (wrong) status = ht_trace_bad_place(group->reader, i, error, wrong);
        at += place->rows;
    }
    if (!status) return states;
    free(states);
    return NULL;
}
