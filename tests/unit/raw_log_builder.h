// Builds raw logs for tests, record by record, with the shim's own encoder.
#ifndef HEAPTAPE_RAW_LOG_BUILDER_H
#define HEAPTAPE_RAW_LOG_BUILDER_H

#include <stdint.h>

#include "raw_append.h"

enum { BUILDER_STREAMS_MAX = 16, BUILDER_WINDOW_BYTES = 8192 };

struct builder_stream {
    struct ht_cursor cursor;
    uint8_t *window;  // NULL until the first record
    uint32_t index;
    uint64_t calls;
    uint64_t offset;  // where the window goes in the file
};

struct raw_log_builder {
    struct ht_raw_header header;
    struct builder_stream stream[BUILDER_STREAMS_MAX];
    uint32_t streams;
    int fd;
};

// One nanosecond per stamp, recording starts at stamp 0.
void builder_open(struct raw_log_builder *builder, const char *path);
// The cursor of a stream, with room for one append.
struct ht_cursor *builder_cursor(struct raw_log_builder *builder, uint32_t stream);
// Counts a call for the window headers.
void builder_count(struct raw_log_builder *builder, uint32_t stream);
void builder_close(struct raw_log_builder *builder);

#endif
