// SPDX-License-Identifier: Apache-2.0
#include "fork_cut.h"

#include <stdlib.h>
#include <string.h>

#include "all_bytes.h"
#include "grow.h"

enum { PADDING_BYTES = 64 };

// A place in a stream: `bytes` into its chunk of that number.
struct place {
    uint32_t chunk, bytes;
    bool is_fork_record;
};

struct cutting {
    struct streams *streams;
    uint64_t stamp, late_stamp;  // of the fork, and what certainly comes after it
    bool wants_fork_record;
    uint8_t *buffer;
    size_t room;
};

static int read_chunk(struct cutting *cutting, const struct stream_chunk *place,
                      struct ht_raw_decoder *decoder, struct ht_error *error) {
    const struct ht_raw_log *log = cutting->streams->log;
    struct ht_raw_chunk header;
    if (place->bytes < sizeof header) {
        *decoder = (struct ht_raw_decoder){0};  // a file cut short: no records
        return 0;
    }
    size_t needed = (size_t)place->bytes + PADDING_BYTES;
    if (!ht_grow(&cutting->buffer, &cutting->room, needed, 1))
        return ht_error_memory(error, log->path, "cannot read a chunk");
    if (!ht_read_at(log->fd, cutting->buffer, place->bytes, place->offset))
        return ht_error_system(error, log->path, "cannot read a chunk");
    memset(cutting->buffer + place->bytes, 0, PADDING_BYTES);
    memcpy(&header, cutting->buffer, sizeof header);
    ht_raw_decode_chunk(decoder, &header, cutting->buffer);
    decoder->end = cutting->buffer + place->bytes;
    return 0;
}

// Reads one chunk. Fills *cut with the first call at or after the fork unless there is one already,
// or with the fork record. Returns 1 to go on behind the chunk, 0 when all is known, -1 with error.
static int scan_chunk(struct cutting *cutting, const struct stream *stream, uint32_t number,
                      struct place *cut, struct ht_error *error) {
    struct ht_raw_decoder decoder;
    struct ht_raw_record record;
    if (read_chunk(cutting, &stream->chunk[number], &decoder, error)) return -1;
    for (const uint8_t *at = decoder.at; at && ht_raw_decode(&decoder, &record) > 0; at = decoder.at) {
        struct place here = {number, (uint32_t)(at - cutting->buffer), false};
        if (record.op == HT_RAW_LONG) {
            if (!cutting->wants_fork_record || record.long_kind != HT_LONG_FORK ||
                record.stamp != cutting->stamp)
                continue;
            here.is_fork_record = true;
            *cut = here;
            return 0;
        }
        if (record.stamp >= cutting->stamp && cut->chunk == UINT32_MAX) *cut = here;
        if (record.stamp > cutting->late_stamp) return 0;
    }
    return 1;
}

static int find_place(struct cutting *cutting, const struct stream *stream, struct place *cut,
                      struct ht_error *error) {
    uint32_t end = stream->chunks, first;
    int more = 1;
    while (end > 0 && stream->chunk[end - 1].base_stamp > cutting->late_stamp) end--;
    for (first = end; first > 0 && stream->chunk[first - 1].base_stamp >= cutting->stamp;) first--;
    // The last chunk that begins before the fork, and the one before it: a fork record may be its last,
    // after which the next chunk begins with the stamp of the last call.
    first -= first < 2 ? first : 2;
    *cut = (struct place){.chunk = UINT32_MAX};
    for (uint32_t i = first; i < end && more > 0; i++) more = scan_chunk(cutting, stream, i, cut, error);
    if (cut->chunk == UINT32_MAX) *cut = (struct place){.chunk = end};
    return more < 0 ? -1 : 0;
}

static void cut_stream(struct streams *streams, struct stream *stream, const struct place *cut) {
    uint32_t chunks = cut->chunk + (cut->bytes > sizeof(struct ht_raw_chunk));
    for (uint32_t i = chunks; i < stream->chunks; i++) streams->bytes_total -= stream->chunk[i].bytes;
    if (chunks > cut->chunk) {
        streams->bytes_total -= stream->chunk[cut->chunk].bytes - cut->bytes;
        stream->chunk[cut->chunk].bytes = cut->bytes;
    }
    stream->chunks = chunks;
    if (chunks) stream->chunk[chunks - 1].used = 0;
}

int streams_cut_at_fork(struct streams *streams, const struct fork_point *fork, uint64_t slack_stamps,
                        struct ht_error *error) {
    struct cutting cutting = {.streams = streams,
                              .stamp = fork->stamp,
                              .late_stamp = fork->stamp + slack_stamps,
                              .wants_fork_record = fork->has_record};
    int status = 0;
    if (cutting.late_stamp < fork->stamp) cutting.late_stamp = UINT64_MAX;
    for (size_t i = 0; i < streams->count && !status; i++) {
        struct place cut;
        status = find_place(&cutting, &streams->stream[i], &cut, error);
        if (status) break;
        cut_stream(streams, &streams->stream[i], &cut);
        if (cut.is_fork_record) cutting.wants_fork_record = false;
    }
    free(cutting.buffer);
    return status;
}
