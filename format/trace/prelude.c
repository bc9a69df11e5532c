// SPDX-License-Identifier: Apache-2.0
#include "prelude.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "columns.h"
#include "grow.h"

bool ht_prelude_is_there(const struct ht_trace_reader *reader) {
    for (size_t i = 0; i < ht_trace_sections(reader); i++)
        if (ht_trace_section(reader, i)->kind == HT_SECTION_PRELUDE) return true;
    return false;
}

struct reading {
    struct ht_prelude *prelude;
    struct ht_unpacker *unpacker;
    uint8_t *part;  // HT_TEXT_BYTES_MAX of them
    size_t room;    // of the threads' numbers
};

static const char *take_part(struct reading *reading, const struct ht_columns *columns) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    if (!ht_find_column(columns, 1, &entry, &stored) || !entry.values || entry.values > HT_TEXT_BYTES_MAX)
        return "expected a part of at most 1 MiB";
    const char *wrong = ht_unpack_bytes(reading->unpacker, &entry, stored, reading->part);
    if (wrong) return wrong;
    return ht_write_all(reading->prelude->fd, reading->part, entry.values) ? NULL
                                                                           : "no memory for the prelude";
}

static const char *take_threads(struct reading *reading, const struct ht_columns *columns, size_t rows) {
    struct ht_prelude *prelude = reading->prelude;
    if (!ht_grow(&prelude->number, &reading->room, prelude->threads + rows, sizeof *prelude->number))
        return "no memory for the prelude";
    const char *wrong =
        ht_column_u32(reading->unpacker, columns, 1, prelude->number + prelude->threads, rows);
    prelude->threads += rows;
    return wrong;
}

static int read_sections(struct reading *reading, struct ht_trace_reader *reader, struct ht_error *error) {
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        uint32_t kind = ht_trace_section(reader, i)->kind;
        const struct ht_section_header *header;
        const void *payload;
        if (kind != HT_SECTION_PRELUDE && kind != HT_SECTION_PRELUDE_THREADS) continue;
        if (ht_trace_stored(reader, i, &header, &payload, error)) return -1;
        const struct ht_columns columns = {payload, header->payload_bytes, header->columns};
        const char *wrong = kind == HT_SECTION_PRELUDE ? take_part(reading, &columns)
                                                       : take_threads(reading, &columns, header->rows);
        if (wrong) return ht_trace_bad_place(reader, i, error, wrong);
    }
    return 0;
}

int ht_prelude_open(struct ht_trace_reader *reader, struct ht_prelude *prelude, struct ht_error *error) {
    reader = ht_trace_of_file(reader);
    *prelude = (struct ht_prelude){.fd = -1};
    if (!ht_prelude_is_there(reader)) return 0;
    struct reading reading = {
        .prelude = prelude, .unpacker = ht_unpacker_new(), .part = malloc(HT_TEXT_BYTES_MAX)};
    prelude->fd = memfd_create("heaptape-prelude", MFD_CLOEXEC);
    int status = 0;
    if (!reading.unpacker || !reading.part || prelude->fd < 0)
        status = ht_error_memory(error, ht_trace_path(reader), "cannot read the prelude");
    if (!status) status = read_sections(&reading, reader, error);
    if (!status && !(prelude->reader = ht_trace_open_in(prelude->fd, "the prelude", error))) status = -1;
    if (!status && ht_trace_truncated(prelude->reader))
        status = ht_trace_bad_section(reader, HT_SECTION_PRELUDE, error, "expected a whole prelude");
    ht_unpacker_free(reading.unpacker);
    free(reading.part);
    if (status) ht_prelude_close(prelude);
    return status;
}

void ht_prelude_close(struct ht_prelude *prelude) {
    if (prelude->reader) ht_trace_close(prelude->reader);
    if (prelude->fd >= 0) close(prelude->fd);
    free(prelude->number);
    *prelude = (struct ht_prelude){.fd = -1};
}

struct ht_trace_writer *ht_prelude_create(uint32_t time_unit_ns, int *fd, struct ht_error *error) {
    enum { LEVEL = 3 };
    *fd = memfd_create("heaptape-prelude", MFD_CLOEXEC);
    struct ht_trace_writer *writer =
        *fd < 0 ? NULL : ht_trace_create_in(*fd, "the prelude", time_unit_ns, LEVEL, error);
    if (*fd < 0) ht_error_system(error, "the prelude", "cannot create");
    if (!writer && *fd >= 0) close(*fd);
    return writer;
}

static void put_threads(struct ht_trace_writer *writer, const uint64_t *number, size_t threads) {
    for (size_t first = 0; first < threads; first += HT_SECTION_ROWS_MAX) {
        size_t rows = threads - first < HT_SECTION_ROWS_MAX ? threads - first : HT_SECTION_ROWS_MAX;
        const struct ht_put_column column = {.id = 1, .count = rows, .values = number + first};
        ht_trace_put_columns(writer, HT_SECTION_PRELUDE_THREADS, (uint32_t)rows, 0, 0, &column, 1);
    }
}

// The bytes are a whole trace; each of the threads has 1 and its number there, or 0.
static void put_prelude(struct ht_trace_writer *writer, const uint8_t *bytes, size_t count,
                        const uint64_t *number, size_t threads) {
    for (size_t first = 0; first < count; first += HT_TEXT_BYTES_MAX) {
        size_t part = count - first < HT_TEXT_BYTES_MAX ? count - first : HT_TEXT_BYTES_MAX;
        const struct ht_put_column column = {.id = 1, .count = part, .bytes = bytes + first};
        ht_trace_put_columns(writer, HT_SECTION_PRELUDE, 0, 0, 0, &column, 1);
    }
    put_threads(writer, number, threads);
}

int ht_prelude_put(struct ht_trace_writer *writer, int fd, const uint64_t *number, size_t threads,
                   struct ht_error *error) {
    struct stat status;
    if (fstat(fd, &status)) return ht_error_system(error, "the prelude", "cannot read");
    size_t bytes = (size_t)status.st_size;
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return ht_error_system(error, "the prelude", "cannot read");
    put_prelude(writer, map, bytes, number, threads);
    munmap(map, bytes);
    return 0;
}

int ht_prelude_copy(struct ht_trace_reader *reader, struct ht_trace_writer *writer, struct ht_error *error) {
    reader = ht_trace_of_file(reader);
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        uint32_t kind = ht_trace_section(reader, i)->kind;
        const struct ht_section_header *header;
        const void *payload;
        if (kind != HT_SECTION_PRELUDE && kind != HT_SECTION_PRELUDE_THREADS) continue;
        if (ht_trace_stored(reader, i, &header, &payload, error)) return -1;
        ht_trace_put_stored(writer, header, payload);
    }
    return 0;
}
