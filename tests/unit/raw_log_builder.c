// SPDX-License-Identifier: Apache-2.0
#include "raw_log_builder.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void builder_open(struct raw_log_builder *builder, const char *path) {
    memset(builder, 0, sizeof *builder);
    builder->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert(builder->fd >= 0);
    builder->header = (struct ht_raw_header){.version = HT_RAW_VERSION,
                                             .min_reader = HT_RAW_MIN_READER,
                                             .header_bytes = HT_RAW_HEADER_BYTES,
                                             .page_bytes = 4096,
                                             .pid = 1,
                                             .clock_kind = HT_CLOCK_GETTIME,
                                             .clock_shift = 0,
                                             .chunks_end = HT_RAW_HEADER_BYTES,
                                             .state = HT_RAW_EXITED};
    memcpy(builder->header.magic, HT_RAW_MAGIC, sizeof builder->header.magic);
}

static void flush(struct raw_log_builder *builder, struct builder_stream *stream, uint32_t used) {
    ((struct ht_raw_chunk *)(void *)stream->chunk)->used = used;
    ssize_t written = pwrite(builder->fd, stream->chunk, BUILDER_CHUNK_BYTES, (off_t)stream->offset);
    assert(written == BUILDER_CHUNK_BYTES);
    (void)written;
    free(stream->chunk);
    stream->chunk = NULL;
}

struct ht_cursor *builder_cursor(struct raw_log_builder *builder, uint32_t number) {
    return builder_room(builder, number, HT_APPEND_ROOM_BYTES);
}

struct ht_cursor *builder_room(struct raw_log_builder *builder, uint32_t number, uint32_t bytes) {
    assert(number < BUILDER_STREAMS_MAX && bytes < BUILDER_CHUNK_BYTES / 2);
    struct builder_stream *stream = &builder->stream[number];
    if (number >= builder->streams) builder->streams = number + 1;
    uint8_t *limit = stream->chunk ? stream->chunk + BUILDER_CHUNK_BYTES - bytes : NULL;
    if (stream->chunk && stream->cursor.at >= limit)
        flush(builder, stream, (uint32_t)(stream->cursor.at - stream->chunk));
    if (!stream->chunk) {
        stream->chunk = calloc(1, BUILDER_CHUNK_BYTES);
        assert(stream->chunk);
        *(struct ht_raw_chunk *)(void *)stream->chunk =
            (struct ht_raw_chunk){.magic = HT_CHUNK_MAGIC,
                                  .stream = number,
                                  .tid = 100 + number,
                                  .index = stream->index++,
                                  .bytes = BUILDER_CHUNK_BYTES,
                                  .base_stamp = stream->cursor.last_stamp,
                                  .base_address = stream->cursor.last_address,
                                  .outer = stream->outer,
                                  .calls_before = stream->calls};
        stream->cursor.at = stream->chunk + sizeof(struct ht_raw_chunk);
        stream->offset = builder->header.chunks_end;
        builder->header.chunks_end += BUILDER_CHUNK_BYTES;
    }
    return &stream->cursor;
}

void builder_count(struct raw_log_builder *builder, uint32_t stream) { builder->stream[stream].calls++; }

void builder_put(struct raw_log_builder *builder, const struct builder_line *line, size_t lines) {
    for (size_t i = 0; i < lines; i++) {
        struct ht_cursor *cursor = builder_cursor(builder, line[i].stream);
        if (line[i].op == HT_RAW_LONG) {
            ht_append_long(cursor, (unsigned)line[i].size, &line[i].stamp, 1);
            continue;
        }
        if (line[i].op == HT_RAW_FREE || line[i].op == HT_RAW_REALLOC_END || line[i].op == HT_RAW_QUERY)
            ht_append_bare(cursor, line[i].op, line[i].stamp, line[i].address);
        else ht_append_call(cursor, line[i].op, line[i].stamp, line[i].address, line[i].size);
        if (line[i].op != HT_RAW_REALLOC_BEGIN) builder_count(builder, line[i].stream);
    }
}

void builder_close(struct raw_log_builder *builder) {
    for (uint32_t i = 0; i < builder->streams; i++)
        if (builder->stream[i].chunk) flush(builder, &builder->stream[i], 0);
    builder->header.streams = builder->streams;
    if (builder->context) {
        size_t bytes = strlen(builder->context) + 1;
        ssize_t put = pwrite(builder->fd, builder->context, bytes, HT_RAW_CONTEXT_OFFSET);
        assert(put == (ssize_t)bytes);
        (void)put;
        builder->header.context_bytes = (uint32_t)bytes;
    }
    // A log without a chunk is as long as its header all the same.
    int failed = ftruncate(builder->fd, (off_t)builder->header.chunks_end);
    assert(!failed);
    (void)failed;
    ssize_t written = pwrite(builder->fd, &builder->header, sizeof builder->header, 0);
    assert(written == sizeof builder->header);
    (void)written;
    close(builder->fd);
}
