// SPDX-License-Identifier: Apache-2.0
#include "trace_reader.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "checksum.h"
#include "columns.h"
#include "event_arrays.h"
#include "grow.h"
#include "sorted.h"

enum { ROWS = HT_SECTION_ROWS_MAX };

struct ht_trace_reader {
    struct ht_trace_made made;   // where it is made from another
    struct ht_trace_reader *of;  // that one; NULL: it reads a file
    char *path;
    int fd;
    bool truncated;
    bool may_be_group;
    uint64_t file_bytes, valid_bytes;
    struct ht_trace_header header;
    struct ht_section_place *places;
    size_t places_count, places_room;
    uint64_t sections_end;           // where the last of them must end
    uint64_t records, latest_units;  // of all events sections: rows, and the time at which the last begins
    uint64_t sites;                  // rows of all sites sections
    uint64_t inherited;              // so many of the first events are known to be inherited blocks
    struct ht_unpacker *unpacker;
    // The section last read.
    struct ht_section_header section;
    uint8_t *payload;
    size_t payload_room;
    struct ht_event_arrays events;  // of the section last decoded
};

static int bad(const struct ht_trace_reader *reader, uint64_t offset, struct ht_error *error,
               const char *what) {
    return ht_error_input(error, reader->path, offset, "%s", what);
}

static int bad_checksum(const struct ht_trace_reader *reader, uint64_t offset, struct ht_error *error,
                        uint64_t expected, uint64_t found) {
    return ht_error_input(error, reader->path, offset,
                          "expected bytes of checksum %016" PRIx64 ", found %016" PRIx64, expected, found);
}

// The columns of the section last read.
static struct ht_columns columns_of(const struct ht_trace_reader *reader) {
    return (struct ht_columns){reader->payload, reader->section.payload_bytes, reader->section.columns};
}

// Reads and checks the section at offset. Returns the offset behind it, or 0 with error.
static uint64_t read_section(struct ht_trace_reader *reader, uint64_t offset, struct ht_error *error) {
    struct ht_section_header *header = &reader->section;
    if (reader->file_bytes < sizeof *header || offset > reader->file_bytes - sizeof *header ||
        !ht_read_at(reader->fd, header, sizeof *header, offset)) {
        bad(reader, offset, error, "expected a section header of 48 bytes, found the end of the file");
        return 0;
    }
    if (header->magic != HT_SECTION_MAGIC) {
        ht_error_input(error, reader->path, offset, "expected a section (HTBK), found 0x%08" PRIx32,
                       header->magic);
        return 0;
    }
    size_t directory_bytes = header->columns * sizeof(struct ht_column_entry);
    if (header->payload_bytes > HT_SECTION_PAYLOAD_BYTES_MAX || header->columns > HT_COLUMNS_MAX ||
        header->payload_bytes < directory_bytes || header->rows > HT_SECTION_ROWS_MAX) {
        ht_error_input(error, reader->path, offset,
                       "expected a section within the format's limits, found %" PRIu32 " bytes, %" PRIu32
                       " rows, %u columns",
                       header->payload_bytes, header->rows, header->columns);
        return 0;
    }
    uint64_t payload_offset = offset + sizeof *header;
    if (header->payload_bytes > reader->file_bytes - payload_offset) {
        ht_error_input(error, reader->path, payload_offset,
                       "expected a payload of %" PRIu32 " bytes, found the end of the file",
                       header->payload_bytes);
        return 0;
    }
    if (reader->payload_room < header->payload_bytes) {
        free(reader->payload);
        reader->payload_room = 0;
        reader->payload = malloc(header->payload_bytes);
        if (!reader->payload) {
            ht_error_memory(error, reader->path, "cannot read a section");
            return 0;
        }
        reader->payload_room = header->payload_bytes;
    }
    if (!ht_read_at(reader->fd, reader->payload, header->payload_bytes, payload_offset)) {
        ht_error_system(error, reader->path, "cannot read");
        return 0;
    }
    XXH64_state_t hash;
    XXH64_reset(&hash, 0);
    XXH64_update(&hash, header, offsetof(struct ht_section_header, checksum));
    if (header->payload_bytes) XXH64_update(&hash, reader->payload, header->payload_bytes);
    if (XXH64_digest(&hash) != header->checksum) {
        bad_checksum(reader, offset, error, header->checksum, XXH64_digest(&hash));
        return 0;
    }
    const struct ht_columns columns = columns_of(reader);
    const char *wrong = ht_check_directory(&columns);
    if (wrong) {
        bad(reader, offset, error, wrong);
        return 0;
    }
    return payload_offset + header->payload_bytes;
}

static const struct ht_column_entry *find_column(const struct ht_trace_reader *reader, uint8_t id,
                                                 struct ht_column_entry *entry, const uint8_t **stored) {
    const struct ht_columns columns = columns_of(reader);
    return ht_find_column(&columns, id, entry, stored);
}

// Decodes a column that must hold `count` values.
static const char *column_u64(struct ht_trace_reader *reader, uint8_t id, uint64_t *values, size_t count) {
    const struct ht_columns columns = columns_of(reader);
    return ht_column_u64(reader->unpacker, &columns, id, values, count);
}

// What is wrong with a place behind those known, or NULL. Sections lie one behind another, so that no byte of
// the file is read as several; and events have numbers without a gap, which is what readers size their tables
// by.
static const char *check_place(const struct ht_trace_reader *reader, const struct ht_section_place *place) {
    const struct ht_section_place *last =
        reader->places_count ? &reader->places[reader->places_count - 1] : NULL;
    uint64_t from = last ? last->offset + sizeof(struct ht_section_header) : sizeof reader->header;
    if (place->offset < from)
        return ht_found("expected sections in the order of their offsets", place->offset);
    if (place->rows > ROWS) return ht_found("expected a section within the format's limits", place->rows);
    if (place->kind != HT_SECTION_EVENTS) return NULL;
    if (place->first_event != reader->records)
        return ht_found("expected events numbered without a gap", place->first_event);
    if (place->first_time < reader->latest_units ||
        place->first_time > (uint64_t)INT64_MAX / reader->header.time_unit_ns)
        return ht_found("expected times that never decrease", place->first_time);
    return NULL;
}

// False for want of memory.
static bool add_place(struct ht_trace_reader *reader, struct ht_section_place place) {
    if (place.kind == HT_SECTION_EVENTS) {
        reader->records += place.rows;
        reader->latest_units = place.first_time;
    }
    if (place.kind == HT_SECTION_SITES) reader->sites += place.rows;
    if (!ht_grow(&reader->places, &reader->places_room, reader->places_count + 1, sizeof *reader->places))
        return false;
    reader->places[reader->places_count++] = place;
    return true;
}

// The index section has been read: takes its rows. Returns what is wrong, or NULL.
static const char *take_index(struct ht_trace_reader *reader, uint64_t index_offset) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    if (reader->section.kind != HT_SECTION_INDEX)
        return ht_found("expected an index section", reader->section.kind);
    if (!find_column(reader, 1, &entry, &stored)) return "expected an index with offsets";
    // A section takes at least its header's bytes, which bounds the rows that a hostile index may claim.
    size_t count = entry.values;
    if (count > reader->file_bytes / sizeof(struct ht_section_header))
        return ht_found("expected an index that fits the file", count);
    uint64_t *values = malloc(5 * (count + 1) * sizeof *values);
    if (!values) return "not enough memory for the index";
    reader->sections_end = index_offset;
    const char *wrong = NULL;
    for (uint8_t column = 0; column < 5 && !wrong; column++)
        wrong = column_u64(reader, column + 1, values + column * count, count);
    for (size_t i = 0; i < count && !wrong; i++) {
        struct ht_section_place place = {.offset = values[i],
                                         .kind = (uint32_t)values[count + i],
                                         .rows = (uint32_t)values[2 * count + i],
                                         .first_event = values[3 * count + i],
                                         .first_time = values[4 * count + i]};
        if (place.offset >= index_offset || values[count + i] > UINT8_MAX || values[2 * count + i] > ROWS)
            wrong = ht_found("expected an index of sections before it", place.offset);
        else if (!(wrong = check_place(reader, &place)) && !add_place(reader, place))
            wrong = "not enough memory for the index";
    }
    free(values);
    return wrong;
}

// Without a footer the sections are found one after the other, up to the first that is not whole.
static void scan_sections(struct ht_trace_reader *reader) {
    struct ht_error ignored;
    uint64_t offset = sizeof reader->header;
    reader->truncated = true;
    while (offset < reader->file_bytes) {
        uint64_t next = read_section(reader, offset, &ignored);
        if (!next || reader->section.kind == HT_SECTION_INDEX) break;
        struct ht_section_place place = {offset, reader->section.kind, reader->section.rows,
                                         reader->section.first_event, reader->section.first_time};
        if (check_place(reader, &place) || !add_place(reader, place)) break;
        offset = next;
    }
    reader->valid_bytes = reader->sections_end = offset;
}

// The magic: what is another file, however short, is named as such.
static int read_kind(struct ht_trace_reader *reader, struct ht_error *error) {
    char *magic = reader->header.magic;
    size_t bytes = sizeof reader->header.magic;
    if (reader->file_bytes == 0) return bad(reader, 0, error, "expected a trace, found an empty file");
    if (reader->file_bytes < bytes) bytes = (size_t)reader->file_bytes;
    if (!ht_read_at(reader->fd, magic, bytes, 0) || memcmp(magic, HT_TRACE_MAGIC, bytes))
        return bad(reader, 0, error,
                   !memcmp(magic, "HTAPERAW", sizeof reader->header.magic)
                       ? "expected a trace, found a raw log: heaptape convert makes a trace of it"
                   : magic[0] == '{'
                       ? "expected a trace, found lines of JSON: results, as heaptape replay -o writes them"
                       : "expected a trace (HTAPETRC), found another file");
    return 0;
}

static int check_features(const struct ht_trace_reader *reader, struct ht_error *error) {
    const uint32_t known = HT_TRACE_FEATURE_QUERIES | HT_TRACE_FEATURE_CONTROLS | HT_TRACE_FEATURE_GROUP;
    uint32_t features = reader->header.features;
    if (features & ~known)
        return ht_error_input(error, reader->path, 12, "expected known features, found 0x%" PRIx32,
                              features & ~known);
    if (features & HT_TRACE_FEATURE_GROUP && !reader->may_be_group)
        return bad(
            reader, 12, error,
            "expected the trace of one process, found that of a group of processes, which heaptape info, "
            "replay and explain take");
    return 0;
}

static int read_header(struct ht_trace_reader *reader, struct ht_error *error) {
    struct ht_trace_header *header = &reader->header;
    if (read_kind(reader, error)) return -1;
    if (!ht_read_at(reader->fd, header, sizeof *header, 0))
        return bad(reader, reader->file_bytes, error,
                   "expected a trace header of 64 bytes, found the end of the file");
    if (header->version < HT_TRACE_MIN_READER)
        return ht_error_input(
            error, reader->path, 8,
            "expected a trace of a released version, found version %u: convert its raw log again",
            header->version);
    if (header->min_reader > HT_TRACE_VERSION)
        return ht_error_input(error, reader->path, 10,
                              "expected a trace of version %d or older, found %u: it needs a newer heaptape",
                              HT_TRACE_VERSION, header->version);
    if (check_features(reader, error)) return -1;
    uint64_t checksum = XXH64(header, offsetof(struct ht_trace_header, checksum), 0);
    if (checksum != header->checksum) return bad_checksum(reader, 0, error, header->checksum, checksum);
    if (header->time_unit_ns == 0)
        return bad(reader, 16, error, "expected a time unit of at least 1 ns, found 0");
    if (header->block_events_max > ROWS)
        return ht_error_input(error, reader->path, 20,
                              "expected at most %d events in a section, found %" PRIu32, ROWS,
                              header->block_events_max);
    return 0;
}

static int read_structure(struct ht_trace_reader *reader, struct ht_error *error) {
    if (read_header(reader, error)) return -1;
    struct ht_trace_footer footer;
    bool ended = reader->file_bytes >= sizeof reader->header + sizeof footer &&
                 ht_read_at(reader->fd, &footer, sizeof footer, reader->file_bytes - sizeof footer) &&
                 !memcmp(footer.magic, HT_TRACE_END_MAGIC, sizeof footer.magic) &&
                 footer.checksum == XXH64(&footer, offsetof(struct ht_trace_footer, checksum), 0) &&
                 footer.file_bytes == reader->file_bytes;
    if (!ended) {
        scan_sections(reader);
        return 0;
    }
    reader->valid_bytes = reader->file_bytes;
    if (!read_section(reader, footer.index_offset, error)) return -1;
    const char *wrong = take_index(reader, footer.index_offset);
    return wrong ? bad(reader, footer.index_offset, error, wrong) : 0;
}

// A reader without a file. NULL with error.
static struct ht_trace_reader *new_reader(const char *name, bool may_be_group, struct ht_error *error) {
    struct ht_trace_reader *reader = calloc(1, sizeof *reader);
    if (reader) {
        ht_event_arrays_init(&reader->events);
        reader->fd = -1;
        reader->may_be_group = may_be_group;
        reader->path = strdup(name);
        reader->unpacker = ht_unpacker_new();
        if (reader->path && reader->unpacker) return reader;
        ht_trace_close(reader);
    }
    ht_error_memory(error, name, "cannot open");
    return NULL;
}

// Of a reader that has its file, or could not open it. NULL with error.
static struct ht_trace_reader *begin_reading(struct ht_trace_reader *reader, struct ht_error *error) {
    struct stat status;
    int result = -1;
    if (reader->fd < 0 || fstat(reader->fd, &status)) {
        ht_error_system(error, reader->path, "cannot open");
        error->status = HT_EXIT_INPUT;
    } else if (!S_ISREG(status.st_mode)) {
        ht_error_input(error, reader->path, 0, "expected a trace in a regular file, found no regular file");
    } else {
        reader->file_bytes = (uint64_t)status.st_size;
        result = read_structure(reader, error);
    }
    if (!result) return reader;
    ht_trace_close(reader);
    return NULL;
}

static struct ht_trace_reader *open_path(const char *path, bool may_be_group, struct ht_error *error) {
    struct ht_trace_reader *reader = new_reader(path, may_be_group, error);
    if (!reader) return NULL;
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe under such a name must not hang us
    return begin_reading(reader, error);
}

struct ht_trace_reader *ht_trace_open(const char *path, struct ht_error *error) {
    return open_path(path, false, error);
}

struct ht_trace_reader *ht_trace_open_any(const char *path, struct ht_error *error) {
    return open_path(path, true, error);
}

struct ht_trace_reader *ht_trace_open_in(int fd, const char *name, struct ht_error *error) {
    struct ht_trace_reader *reader = new_reader(name, false, error);
    if (!reader) return NULL;
    reader->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return begin_reading(reader, error);
}

struct ht_trace_reader *ht_trace_open_made(struct ht_trace_reader *of, const struct ht_trace_made *made,
                                           struct ht_error *error) {
    struct ht_trace_reader *reader = calloc(1, sizeof *reader);
    char *path = strdup(of->path);
    if (!reader || !path) {
        free(reader);
        free(path);
        ht_error_memory(error, of->path, "cannot open");
        return NULL;
    }
    *reader = (struct ht_trace_reader){.made = *made,
                                       .of = of,
                                       .path = path,
                                       .fd = -1,
                                       .file_bytes = of->file_bytes,
                                       .valid_bytes = of->valid_bytes,
                                       .header = of->header};
    for (size_t i = 0; i < made->places_count; i++) {
        assert(made->places[i].kind == HT_SECTION_EVENTS && made->places[i].first_event == reader->records);
        reader->records += made->places[i].rows;
        reader->latest_units = made->places[i].first_time;
    }
    return reader;
}

void ht_trace_close(struct ht_trace_reader *reader) {
    if (!reader) return;
    if (reader->of) {
        reader->made.close(reader->made.context);
        ht_trace_close(reader->of);
    }
    if (reader->fd >= 0) close(reader->fd);
    ht_unpacker_free(reader->unpacker);
    free(reader->payload);
    free(reader->places);
    free(reader->path);
    free(reader);
}

bool ht_trace_truncated(const struct ht_trace_reader *reader) { return reader->truncated; }
void ht_trace_report_truncated(const struct ht_trace_reader *reader, struct ht_error *error) {
    ht_error_input(error, reader->path, reader->valid_bytes,
                   "expected a whole section or the footer, found the file cut short or damaged: only the "
                   "part before this offset was read");
}
int ht_trace_bad_section(const struct ht_trace_reader *reader, enum ht_section_kind kind,
                         struct ht_error *error, const char *expected) {
    uint64_t offset = 0;
    for (size_t i = reader->places_count; i-- > 0;)
        if (reader->places[i].kind == kind) offset = reader->places[i].offset;
    return bad(reader, offset, error, expected);
}
int ht_trace_bad_place(const struct ht_trace_reader *reader, size_t i, struct ht_error *error,
                       const char *expected) {
    return bad(reader, reader->places[i].offset, error, expected);
}
const char *ht_trace_path(const struct ht_trace_reader *reader) { return reader->path; }
uint64_t ht_trace_valid_bytes(const struct ht_trace_reader *reader) { return reader->valid_bytes; }
uint64_t ht_trace_file_bytes(const struct ht_trace_reader *reader) { return reader->file_bytes; }
uint32_t ht_trace_time_unit_ns(const struct ht_trace_reader *reader) { return reader->header.time_unit_ns; }
uint32_t ht_trace_features(const struct ht_trace_reader *reader) { return reader->header.features; }
uint64_t ht_trace_records(const struct ht_trace_reader *reader) { return reader->records; }
size_t ht_trace_sections(const struct ht_trace_reader *reader) {
    return reader->of ? reader->made.places_count : reader->places_count;
}
const struct ht_section_place *ht_trace_section(const struct ht_trace_reader *reader, size_t i) {
    if (reader->of) {
        assert(i < reader->made.places_count);
        return &reader->made.places[i];
    }
    assert(i < reader->places_count);
    return &reader->places[i];
}

// Reads the i-th section, which must be what the index says of it. Returns 0 or -1 with error.
static int read_place(struct ht_trace_reader *reader, size_t i, struct ht_error *error) {
    const struct ht_section_place *place = &reader->places[i];
    const struct ht_section_header *header = &reader->section;
    uint64_t next = i + 1 < reader->places_count ? place[1].offset : reader->sections_end;
    uint64_t end = read_section(reader, place->offset, error);
    if (!end) return -1;
    if (end > next || header->kind != place->kind || header->rows != place->rows ||
        header->first_event != place->first_event || header->first_time != place->first_time)
        return ht_error_input(error, reader->path, place->offset,
                              "expected the section that the index names, found kind %u with event %" PRIu64,
                              header->kind, header->first_event);
    return 0;
}

// Where the only section of its kind is: places_count if there is none. *twice: where another one is, or 0.
static size_t only_place(const struct ht_trace_reader *reader, enum ht_section_kind kind, uint64_t *twice) {
    size_t found = reader->places_count;
    *twice = 0;
    for (size_t i = reader->places_count; i-- > 0;) {
        if (reader->places[i].kind != kind) continue;
        if (found < reader->places_count) *twice = reader->places[found].offset;
        found = i;
    }
    return found;
}

// NULL with error->status 0: there is none.
static char *text_section(struct ht_trace_reader *reader, enum ht_section_kind kind, struct ht_error *error) {
    uint64_t twice;
    size_t i = only_place(reader, kind, &twice);
    error->status = 0;
    if (i == reader->places_count) return NULL;
    if (twice) {
        bad(reader, twice, error, "expected one section of this kind, found another");
        return NULL;
    }
    if (read_place(reader, i, error)) return NULL;
    struct ht_column_entry entry;
    const uint8_t *stored;
    const char *wrong = "expected a text of at most 1 MiB";
    char *text = NULL;
    if (find_column(reader, 1, &entry, &stored) && entry.values <= HT_TEXT_BYTES_MAX &&
        (text = malloc((size_t)entry.values + 1))) {
        wrong = ht_unpack_bytes(reader->unpacker, &entry, stored, (uint8_t *)text);
        text[entry.values] = 0;
        if (!wrong && strlen(text) != entry.values) wrong = "expected a text without zero bytes";
    }
    if (!wrong) return text;
    free(text);
    bad(reader, reader->places[i].offset, error, wrong);
    return NULL;
}

char *ht_trace_context_json(struct ht_trace_reader *reader, struct ht_error *error) {
    if (reader->of) return reader->made.context_json(reader->made.context, error);
    return text_section(reader, HT_SECTION_CONTEXT, error);
}

char *ht_trace_totals_json(struct ht_trace_reader *reader, struct ht_error *error) {
    if (reader->of) return reader->made.totals_json(reader->made.context, error);
    return text_section(reader, HT_SECTION_TOTALS, error);
}

char *ht_trace_modules_json(struct ht_trace_reader *reader, struct ht_error *error) {
    return text_section(reader, HT_SECTION_MODULES, error);
}

static const char *decode_events(struct ht_trace_reader *reader, uint64_t units_max) {
    const struct ht_columns columns = columns_of(reader);
    const char *wrong =
        ht_event_arrays_decode(&reader->events, reader->unpacker, &columns, reader->section.rows,
                               reader->section.first_time, reader->header.time_unit_ns);
    if (!wrong && reader->events.last_units > units_max)
        wrong = ht_found("expected times that never decrease", reader->events.last_units);
    return wrong;
}

// The time that no event of the i-th section may go beyond: that at which the next events begin.
static uint64_t units_max_of(const struct ht_trace_reader *reader, size_t i) {
    for (size_t next = i + 1; next < reader->places_count; next++)
        if (reader->places[next].kind == HT_SECTION_EVENTS) return reader->places[next].first_time;
    return (uint64_t)INT64_MAX / reader->header.time_unit_ns;
}

// What is inherited comes before all else. Notes how far that goes. Returns the row of the section last
// decoded that is inherited and comes later, for all that is known; UINT32_MAX: there is none.
static uint32_t late_inherited(struct ht_trace_reader *reader) {
    const struct ht_event_arrays *events = &reader->events;
    uint64_t first = reader->section.first_event;
    bool any = false;
    for (uint32_t i = 0; i < events->tokens; i++)
        any |= ht_op_function(events->token_table[i].op) == HT_INHERIT;
    if (!any) return UINT32_MAX;
    uint32_t row = 0;
    while (row < events->rows && ht_op_function(events->op[row]) == HT_INHERIT) row++;
    if (row && first <= reader->inherited && first + row > reader->inherited) reader->inherited = first + row;
    if (row && first + row > reader->inherited) return 0;
    while (row < events->rows && ht_op_function(events->op[row]) != HT_INHERIT) row++;
    return row < events->rows ? row : UINT32_MAX;
}

// Call sites that the tables do not have. The tables come last: a file that was cut short has lost some, or all.
static const char *check_sites(struct ht_trace_reader *reader) {
    static _Thread_local char expected[64];
    struct ht_event_arrays *events = &reader->events;
    uint32_t highest = 0;
    if (!events->has_sites) return NULL;
    for (uint32_t row = 0; row < reader->section.rows; row++)
        if (events->site[row] > highest) highest = events->site[row];
    if (highest <= reader->sites) return NULL;
    if (!reader->truncated) {
        snprintf(expected, sizeof expected, "expected call sites up to %" PRIu64, reader->sites);
        return ht_found(expected, highest);
    }
    for (uint32_t row = 0; row < reader->section.rows; row++)
        if (events->site[row] > reader->sites) events->site[row] = 0;
    return NULL;
}

// Decodes the i-th section, of events. Returns 0 or -1 with error.
static int decode_place(struct ht_trace_reader *reader, size_t i, struct ht_error *error) {
    if (read_place(reader, i, error)) return -1;
    const char *wrong = decode_events(reader, units_max_of(reader, i));
    if (!wrong) wrong = check_sites(reader);
    return wrong ? bad(reader, reader->places[i].offset, error, wrong) : 0;
}

// A reader of a part only has not met what comes before it. Returns 0 or -1 with error.
static int find_inherited(struct ht_trace_reader *reader, size_t end, struct ht_error *error) {
    for (size_t i = 0; i < end; i++) {
        if (reader->places[i].kind != HT_SECTION_EVENTS) continue;
        if (decode_place(reader, i, error)) return -1;
        if (late_inherited(reader) != UINT32_MAX) break;
    }
    return decode_place(reader, end, error);
}

int ht_trace_events(struct ht_trace_reader *reader, size_t i, struct ht_events *events,
                    struct ht_error *error) {
    if (reader->of) return reader->made.events(reader->made.context, i, events, error);
    assert(i < reader->places_count && reader->places[i].kind == HT_SECTION_EVENTS);
    if (decode_place(reader, i, error)) return -1;
    uint32_t late = late_inherited(reader);
    if (late != UINT32_MAX && find_inherited(reader, i, error)) return -1;
    if (late != UINT32_MAX && (late = late_inherited(reader)) != UINT32_MAX)
        return ht_error_input(error, reader->path, reader->places[i].offset,
                              "event %" PRIu64 ": expected inherited blocks before the first call",
                              reader->places[i].first_event + late);
    *events = (struct ht_events){.rows = reader->section.rows,
                                 .first_event = reader->section.first_event,
                                 .op = reader->events.op,
                                 .thread = reader->events.thread,
                                 .time_ns = reader->events.time_ns,
                                 .slot = reader->events.slot,
                                 .size = reader->events.size,
                                 .extra = reader->events.extra,
                                 .site = reader->events.has_sites ? reader->events.site : NULL};
    return 0;
}

const struct ht_trace_made *ht_trace_made(const struct ht_trace_reader *reader) {
    return reader->of ? &reader->made : NULL;
}

struct ht_trace_reader *ht_trace_of_file(struct ht_trace_reader *reader) {
    return reader->of ? reader->of : reader;
}

int ht_trace_stored(struct ht_trace_reader *reader, size_t i, const struct ht_section_header **header,
                    const void **payload, struct ht_error *error) {
    assert(!reader->of);
    if (read_place(reader, i, error)) return -1;
    *header = &reader->section;
    *payload = reader->payload;
    return 0;
}
