#include "streams.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "read_at.h"

enum {
    CHUNK_BYTES = 32 << 10,
    // A record with its modifiers is shorter: decoding stops this far from the chunk's end while more of the
    // window follows.
    CHUNK_MARGIN_BYTES = 256,
    PADDING_BYTES = 64
};

bool stream_add_window(struct stream *stream, struct stream_window window) {
    if (stream->windows == stream->windows_room) {
        uint32_t room = stream->windows_room ? stream->windows_room * 2 : 4;
        void *larger = realloc(stream->window, room * sizeof *stream->window);
        if (!larger) return false;
        stream->window = larger;
        stream->windows_room = room;
    }
    stream->window[stream->windows++] = window;
    return true;
}

bool streams_grow(struct streams *streams, uint32_t number) {
    if (number < streams->room) return true;
    size_t room = ((size_t)number + 1) * 2;
    struct stream *larger = realloc(streams->stream, room * sizeof *larger);
    if (!larger) return false;
    memset(larger + streams->room, 0, (room - streams->room) * sizeof *larger);
    streams->stream = larger;
    streams->room = room;
    return true;
}

int streams_open(struct streams *streams, const struct ht_raw_log *log, struct ht_error *error) {
    *streams = (struct streams){.log = log};
    struct ht_window window;
    uint64_t at, offset = 0;
    int more;
    while ((more = ht_raw_next_window(log, offset, &window, &at, error)) > 0) {
        offset = at + window.bytes;
        if (!ht_raw_stream_possible(log, window.stream))
            return ht_error_input(error, log->path, at,
                                  "a stream number that the windows account for expected");
        if (!streams_grow(streams, window.stream)) goto no_memory;
        if (window.stream >= streams->count) streams->count = (size_t)window.stream + 1;
        struct stream *stream = &streams->stream[window.stream];
        if (stream->windows == 0) {
            stream->tid = window.tid;
            stream->outer = window.outer;
            stream->first_stamp = window.base_stamp;
        }
        // A stream is nested in one that was opened before it: so there is always an outermost one.
        if (window.outer > window.stream || window.outer != stream->outer)
            return ht_error_input(error, log->path, at,
                                  "a stream nested in an earlier one expected, found %" PRIu32 " in %" PRIu32,
                                  window.stream, window.outer - 1);
        if (window.index != stream->windows)
            return ht_error_input(error, log->path, at,
                                  "window %" PRIu32 " of stream %" PRIu32 " expected, found %" PRIu32,
                                  stream->windows, window.stream, window.index);
        uint64_t bytes = window.used ? window.used : window.bytes;
        if (bytes > log->windows_end - at) bytes = log->windows_end - at;  // a file cut short
        if (!stream_add_window(stream,
                               (struct stream_window){at, window.base_stamp, (uint32_t)bytes, window.used}))
            goto no_memory;
        streams->bytes_total += bytes;
    }
    return more;
no_memory:
    errno = ENOMEM;
    return ht_error_system(error, log->path, "cannot read the windows");
}

static void release(struct stream *stream) {
    free(stream->chunk);
    free(stream->batch);
    stream->chunk = NULL;
    stream->batch = NULL;
    stream->batch_at = stream->batch_end = 0;
}

void streams_close(struct streams *streams) {
    for (size_t i = 0; i < streams->count; i++) {
        release(&streams->stream[i]);
        free(streams->stream[i].window);
    }
    free(streams->stream);
    *streams = (struct streams){0};
}

static int read_at(const struct ht_raw_log *log, void *to, size_t bytes, uint64_t offset,
                   struct ht_error *error) {
    if (ht_read_at(log->fd, to, bytes, offset)) return 0;
    if (errno) return ht_error_system(error, log->path, "cannot read");
    return ht_error_input(error, log->path, offset, "%zu bytes of a window expected, but the file ends",
                          bytes);
}

// Fills the chunk: first what is left undecoded of it, then more of the window.
static int fill_chunk(struct streams *streams, struct stream *stream, struct ht_error *error) {
    size_t kept = (size_t)(stream->decoder.end - stream->decoder.at);
    memmove(stream->chunk, stream->decoder.at, kept);
    stream->chunk_offset += (uint64_t)(stream->decoder.at - stream->chunk);
    size_t more = CHUNK_BYTES - kept;
    if (more > stream->window_left) more = (size_t)stream->window_left;
    if (read_at(streams->log, stream->chunk + kept, more, stream->chunk_offset + kept, error)) return -1;
    memset(stream->chunk + kept + more, 0, PADDING_BYTES);
    stream->window_left -= more;
    streams->bytes_read += more;
    stream->decoder.at = stream->chunk;
    stream->decoder.end = stream->chunk + kept + more;
    return 0;
}

// Begins the stream's next window. Returns 1, 0 if there is none, -1 with error.
static int begin_window(struct streams *streams, struct stream *stream, struct ht_error *error) {
    if (stream->next_window == stream->windows) return 0;
    const struct stream_window *place = &stream->window[stream->next_window++];
    struct ht_window window = {.base_stamp = place->base_stamp, .base_address = place->base_address};
    uint32_t from = place->from ? place->from : (uint32_t)sizeof window;
    if (place->bytes <= from) return 1;
    if (!place->from && read_at(streams->log, &window, sizeof window, place->offset, error)) return -1;
    stream->decoder = (struct ht_raw_decoder){.at = stream->chunk,
                                              .end = stream->chunk,
                                              .stamp = window.base_stamp,
                                              .address = window.base_address};
    stream->chunk_offset = place->offset + from;
    stream->window_left = place->bytes - from;
    stream->in_window = true;
    return fill_chunk(streams, stream, error) ? -1 : 1;
}

// Decodes until the batch is full or the window ends. Returns 0 or -1 with error.
static int decode_some(struct streams *streams, struct stream *stream, struct ht_error *error) {
    while (stream->batch_end < STREAM_BATCH) {
        if (stream->window_left && stream->decoder.end - stream->decoder.at < CHUNK_MARGIN_BYTES &&
            fill_chunk(streams, stream, error))
            return -1;
        const uint8_t *limit = stream->decoder.end - (stream->window_left ? CHUNK_MARGIN_BYTES : 0);
        size_t common = ht_raw_decode_common(&stream->decoder, limit, &stream->batch[stream->batch_end],
                                             STREAM_BATCH - stream->batch_end);
        stream->batch_end += (uint32_t)common;
        if (common) continue;
        int decoded = ht_raw_decode(&stream->decoder, &stream->batch[stream->batch_end]);
        if (decoded < 0)
            return ht_error_input(error, streams->log->path,
                                  stream->chunk_offset + (uint64_t)(stream->decoder.at - stream->chunk),
                                  "a record expected");
        if (decoded == 0) {
            stream->in_window = false;
            streams->bytes_read += stream->window_left;
            return 0;
        }
        stream->batch_end++;
    }
    return 0;
}

int streams_refill(struct streams *streams, struct stream *stream, struct ht_error *error) {
    assert(stream->batch_at == stream->batch_end);
    if (stream->ended) return 0;
    if (!stream->chunk) {
        stream->chunk = malloc(CHUNK_BYTES + PADDING_BYTES);
        stream->batch = malloc(STREAM_BATCH * sizeof *stream->batch);
        if (!stream->chunk || !stream->batch) {
            errno = ENOMEM;
            return ht_error_system(error, streams->log->path, "cannot read a stream");
        }
    }
    stream->batch_at = stream->batch_end = 0;
    while (stream->batch_end == 0) {
        if (!stream->in_window) {
            int begun = begin_window(streams, stream, error);
            if (begun < 0) return -1;
            if (begun == 0) {
                stream->ended = !streams->growing;
                release(stream);
                return 0;
            }
            if (!stream->in_window) continue;
        }
        const uint64_t window = stream->window[stream->next_window - 1].offset;
        stream->batch_place = (struct stream_place){.window = window,
                                                    .at = (uint32_t)(stream->chunk_offset - window) +
                                                          (uint32_t)(stream->decoder.at - stream->chunk),
                                                    .stamp = stream->decoder.stamp,
                                                    .address = stream->decoder.address};
        if (decode_some(streams, stream, error)) return -1;
    }
    return 1;
}
