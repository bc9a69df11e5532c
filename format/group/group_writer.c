// SPDX-License-Identifier: Apache-2.0
#include "group_writer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "all_bytes.h"

enum { ROWS = HT_SECTION_ROWS_MAX, PART_BYTES = HT_TEXT_BYTES_MAX };

struct ht_trace_writer *ht_group_create(const char *path, uint32_t time_unit_ns, int level,
                                        struct ht_error *error) {
    return ht_trace_create_group(path, time_unit_ns, level, error);
}

int ht_group_put_member(struct ht_trace_writer *writer, uint32_t process, int fd, struct ht_error *error) {
    struct stat status;
    uint8_t *part = malloc(PART_BYTES);
    if (!part) return ht_error_memory(error, "the trace of a process", "cannot copy");
    int result = fstat(fd, &status) ? ht_error_system(error, "the trace of a process", "cannot read") : 0;
    uint64_t bytes = result ? 0 : (uint64_t)status.st_size;
    for (uint64_t at = 0; at < bytes && !result; at += PART_BYTES) {
        size_t count = bytes - at < PART_BYTES ? (size_t)(bytes - at) : PART_BYTES;
        const struct ht_put_column column = {.id = 1, .count = count, .bytes = part};
        if (!ht_read_at(fd, part, count, at))
            result = ht_error_system(error, "the trace of a process", "cannot read");
        else ht_trace_put_columns(writer, HT_SECTION_MEMBER, 0, process, 0, &column, 1);
    }
    free(part);
    return result;
}

int ht_group_put_layout(struct ht_trace_writer *writer, uint32_t process,
                        const struct ht_group_layout *layout) {
    uint64_t *values = malloc(2 * (size_t)ROWS * sizeof *values);
    if (!values) return -1;
    for (size_t first = 0; first < layout->blocks; first += ROWS) {
        size_t rows = layout->blocks - first < ROWS ? layout->blocks - first : ROWS;
        for (size_t i = 0; i < rows; i++) {
            assert(layout->page[first + i] < layout->pages);
            values[i] = layout->page[first + i];
            values[ROWS + i] = layout->offset[first + i];
        }
        const struct ht_put_column columns[] = {{.id = 1, .count = rows, .values = values},
                                                {.id = 2, .count = rows, .values = values + ROWS}};
        ht_trace_put_columns(writer, HT_SECTION_LAYOUT, (uint32_t)rows, process, 0, columns, 2);
    }
    free(values);
    return 0;
}

void ht_group_put_page_states(struct ht_trace_writer *writer, uint32_t process, uint32_t moment,
                              const uint8_t *states, size_t count) {
    for (size_t first = 0; first < count; first += ROWS) {
        size_t rows = count - first < ROWS ? count - first : ROWS;
        const struct ht_put_column column = {.id = 1, .count = rows, .bytes = states + first};
        ht_trace_put_columns(writer, HT_SECTION_PAGE_STATES, (uint32_t)rows, process, moment, &column, 1);
    }
}

int ht_group_finish(struct ht_trace_writer *writer, json_t *context, const struct ht_group_content *content,
                    uint64_t *file_bytes, struct ht_error *error) {
    json_object_set_new(context, "group", ht_group_content_json(content));
    char *text = json_dumps(context, JSON_COMPACT);
    json_decref(context);
    size_t bytes = text ? strlen(text) : 0;
    if (!text || bytes > HT_GROUP_CONTEXT_BYTES_MAX) {
        free(text);
        ht_trace_abandon(writer);
        return ht_error_memory(error, "the trace of a group", "cannot write its context");
    }
    const struct ht_put_column column = {.id = 1, .count = bytes, .bytes = (const uint8_t *)text};
    ht_trace_put_columns(writer, HT_SECTION_CONTEXT, 0, 0, 0, &column, 1);
    free(text);
    return ht_trace_finish_group(writer, file_bytes, error);
}
