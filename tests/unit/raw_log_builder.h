// SPDX-License-Identifier: Apache-2.0
// Builds raw logs for tests, record by record, with the shim's own encoder.
#ifndef HEAPTAPE_RAW_LOG_BUILDER_H
#define HEAPTAPE_RAW_LOG_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include "raw_append.h"

enum { BUILDER_STREAMS_MAX = 16, BUILDER_CHUNK_BYTES = 8192 };

struct builder_stream {
    struct ht_cursor cursor;
    uint8_t *chunk;  // NULL until the first record
    uint32_t index;
    uint64_t calls;
    uint32_t outer;   // goes into the chunks' headers
    uint64_t offset;  // where the chunk goes in the file
};

struct raw_log_builder {
    struct ht_raw_header header;
    struct builder_stream stream[BUILDER_STREAMS_MAX];
    uint32_t streams;
    const char *context;  // one key=value, or NULL
    int fd;
};

// One record of a small log by hand. size: of a long record its kind.
struct builder_line {
    unsigned stream, op;
    uint64_t stamp, address, size;
};

// One nanosecond per stamp, recording starts at stamp 0.
void builder_open(struct raw_log_builder *builder, const char *path);
// The cursor of a stream, with room for one append.
struct ht_cursor *builder_cursor(struct raw_log_builder *builder, uint32_t stream);
// The same, with room for so many bytes.
struct ht_cursor *builder_room(struct raw_log_builder *builder, uint32_t stream, uint32_t bytes);
// Counts a call for the chunk headers.
void builder_count(struct raw_log_builder *builder, uint32_t stream);
// Appends the records, calls counted.
void builder_put(struct raw_log_builder *builder, const struct builder_line *line, size_t lines);
void builder_close(struct raw_log_builder *builder);

#endif
