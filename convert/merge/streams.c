// SPDX-License-Identifier: Apache-2.0
#include "streams.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "all_bytes.h"
#include "grow.h"

enum {
    BUFFER_BYTES = 32 << 10,
    // A record with its modifiers is shorter: decoding stops this far from the buffer's end while more of the
    // chunk follows.
    BUFFER_MARGIN_BYTES = 2304,
    // More of a stream that may have calls without a time: the stamp after them is looked for.
    BUFFER_MARGIN_UNTIMED_BYTES = HT_UNTIMED_BYTES_MAX + BUFFER_MARGIN_BYTES,
    PADDING_BYTES = 64,
    // A bound for logs whose stamps stand still; threads of real ones make no more calls in 2 µs.
    AHEAD_RECORDS_MAX = 128,
    AHEAD_BATCH = 8
};

bool stream_add_chunk(struct stream *stream, struct stream_chunk chunk) {
    if (!ht_grow(&stream->chunk, &stream->chunks_room, stream->chunks + 1, sizeof *stream->chunk))
        return false;
    stream->chunk[stream->chunks++] = chunk;
    return true;
}

bool streams_grow(struct streams *streams, uint32_t number) {
    return ht_grow(&streams->stream, &streams->room, (size_t)number + 1, sizeof *streams->stream);
}

void streams_note_begin(struct streams *streams, uint32_t number, uint64_t stamp) {
    if (number && (!streams->second_stamp || stamp < streams->second_stamp)) streams->second_stamp = stamp;
}

// Can this be a chunk of its stream? Returns 0 or -1 with error.
static int check_chunk(const struct streams *streams, const struct ht_raw_chunk *chunk, uint64_t at,
                       struct ht_error *error) {
    const struct ht_raw_log *log = streams->log;
    if (!ht_raw_stream_possible(log, chunk->stream)) return ht_raw_bad_stream(log, chunk, at, error);
    const struct stream *stream = chunk->stream < streams->count && streams->stream[chunk->stream].chunks
                                      ? &streams->stream[chunk->stream]
                                      : NULL;
    // A stream is nested in one that was opened before it: so there is always an outermost one.
    if (chunk->outer > chunk->stream || (stream && chunk->outer != stream->outer))
        return ht_error_input(error, log->path, at,
                              "expected a stream nested in an earlier one, found %" PRIu32 " in %" PRIu32,
                              chunk->stream, chunk->outer - 1);
    return 0;
}

// Chunks are missing before this one, or its number is damaged: it is the stream's next in the file all the same.
static void note_gap(struct streams *streams, const struct ht_raw_chunk *chunk, uint64_t at) {
    struct ht_error error;
    streams->damage.gaps++;
    ht_error_input(&error, streams->log->path, at,
                   "expected chunk %" PRIu32 " of stream %" PRIu32 ", found %" PRIu32,
                   streams->stream[chunk->stream].next_index, chunk->stream, chunk->index);
    ht_raw_note_damage(&streams->damage, streams->log, &error);
}

// Returns 0 or -1 with error.
static int take_chunk(struct streams *streams, const struct ht_raw_chunk *chunk, uint64_t at,
                      struct ht_error *error) {
    const struct ht_raw_log *log = streams->log;
    if (!streams_grow(streams, chunk->stream))
        return ht_error_memory(error, log->path, "cannot read the chunks");
    if (chunk->stream >= streams->count) streams->count = (size_t)chunk->stream + 1;
    struct stream *stream = &streams->stream[chunk->stream];
    if (stream->chunks == 0) {
        stream->tid = chunk->tid;
        stream->outer = chunk->outer;
        stream->first_stamp = chunk->base_stamp;
        streams_note_begin(streams, chunk->stream, chunk->base_stamp);
    } else {
        stream->chunk[stream->chunks - 1].end_stamp = chunk->base_stamp;
    }
    bool gap = chunk->index != stream->next_index;
    if (gap) note_gap(streams, chunk, at);
    stream->next_index = chunk->index + 1;
    uint64_t bytes = chunk->used ? chunk->used : chunk->bytes, left = log->chunks_end - at;
    bool cut = bytes > left;  // a file cut short
    if (cut) bytes = left;
    streams->bytes_total += bytes;
    if (stream_add_chunk(stream, (struct stream_chunk){.offset = at,
                                                       .base_stamp = chunk->base_stamp,
                                                       .bytes = (uint32_t)bytes,
                                                       .used = cut ? 0 : chunk->used,
                                                       .after_gap = gap,
                                                       .calls_before = chunk->calls_before}))
        return 0;
    return ht_error_memory(error, log->path, "cannot read the chunks");
}

int streams_open(struct streams *streams, const struct ht_raw_log *log, struct ht_error *error) {
    *streams = (struct streams){.log = log, .tick_stamps = ht_raw_tick_stamps(log)};
    struct ht_raw_chunk chunk;
    uint64_t at, offset = 0;
    int more;
    while ((more = ht_raw_next_chunk(log, offset, &chunk, &at, error))) {
        if (more > 0) more = check_chunk(streams, &chunk, at, error) ? -1 : 1;
        if (more < 0 && !ht_raw_pass_page(&streams->damage, log, at, &offset, error)) return -1;
        if (more < 0) continue;
        offset = at + chunk.bytes;
        if (take_chunk(streams, &chunk, at, error)) return -1;
    }
    return 0;
}

static void release(struct stream *stream) {
    free(stream->buffer);
    free(stream->batch);
    stream->buffer = NULL;
    stream->batch = NULL;
    stream->batch_at = stream->batch_end = 0;
}

void streams_close(struct streams *streams) {
    for (size_t i = 0; i < streams->count; i++) {
        release(&streams->stream[i]);
        free(streams->stream[i].chunk);
    }
    free(streams->stream);
    free(streams->ahead_buffer);
    free(streams->ahead_batch);
    *streams = (struct streams){0};
}

static int read_at(const struct ht_raw_log *log, void *to, size_t bytes, uint64_t offset,
                   struct ht_error *error) {
    if (ht_read_at(log->fd, to, bytes, offset)) return 0;
    if (errno) return ht_error_system(error, log->path, "cannot read");
    return ht_error_input(error, log->path, offset,
                          "expected %zu bytes of a chunk, found the end of the file", bytes);
}

// Fills the buffer: first what is left undecoded of it, then more of the chunk.
static int fill_buffer(struct streams *streams, struct stream *stream, struct ht_error *error) {
    size_t kept = (size_t)(stream->decoder.end - stream->decoder.at);
    memmove(stream->buffer, stream->decoder.at, kept);
    stream->buffer_offset += (uint64_t)(stream->decoder.at - stream->base);
    stream->base = stream->buffer;
    size_t more = BUFFER_BYTES - kept;
    if (more > stream->chunk_left) more = (size_t)stream->chunk_left;
    if (read_at(streams->log, stream->buffer + kept, more, stream->buffer_offset + kept, error)) return -1;
    memset(stream->buffer + kept + more, 0, PADDING_BYTES);
    stream->chunk_left -= more;
    streams->bytes_read += more;
    stream->decoder.at = stream->buffer;
    stream->decoder.end = stream->buffer + kept + more;
    return 0;
}

struct ht_raw_decoder streams_decoder(const struct streams *streams, const struct stream_place *place,
                                      uint64_t end_stamp) {
    struct ht_raw_decoder decoder = {.stamp = place->stamp,
                                     .address = place->address,
                                     .site = place->site,
                                     .spread = place->spread,
                                     .tick_stamps = streams->tick_stamps,
                                     .end_stamp = end_stamp,
                                     .second_stamp = streams->second_stamp};
    if (decoder.spread.from < place->stamp) {
        decoder.spread.from = place->stamp;
        decoder.spread.done = decoder.spread.calls = 0;
    }
    return decoder;
}

// ---- damage ----

static void note_damage(struct streams *streams, const struct ht_error *error) {
    ht_raw_note_damage(&streams->damage, streams->log, error);
}

// What the chunk says of the calls before it, against those that were found. A jump out of a signal handler leaves calls
// that are in the log and not in the count: so more is no damage.
static void compare_calls(struct streams *streams, struct stream *stream, const struct stream_chunk *place) {
    struct ht_error error;
    uint64_t said = place->calls_before;
    if (said == CALLS_UNSAID) return;
    uint64_t lost = said > stream->calls ? said - stream->calls : 0;
    bool possible = said <= streams->log->chunks_end / 2;  // a call takes two bytes at the least
    if (!possible || (lost > stream->lost_calls && !stream->damaged && !place->after_gap)) {
        ht_error_input(&error, streams->log->path, place->offset,
                       "expected %" PRIu64 " calls of stream %zu before this chunk, found %" PRIu64, said,
                       (size_t)(stream - streams->stream), stream->calls);
        note_damage(streams, &error);
    }
    if (!possible) return;
    stream->broken |= place->after_gap || lost > stream->lost_calls;
    stream->lost_calls = lost;
}

// The chunk's records ended. Is there more of it? *found: where, or where the records should have ended.
static bool ends_early(struct streams *streams, const struct stream *stream, uint64_t *end, uint64_t *found) {
    const struct stream_chunk *place = &stream->chunk[stream->next_chunk - 1];
    *end = stream->buffer_offset + (uint64_t)(stream->decoder.at - stream->base);
    *found = place->offset + place->used;
    // Behind a jump out of a signal handler, the zero belongs to what is used.
    if (place->used) return *end + sizeof(uint16_t) < *found;
    uint8_t bytes[4096];
    uint64_t limit = place->offset + place->bytes;
    // A process that was killed leaves behind a stream's last record what it had written of the next one.
    for (*found = *end + STREAM_RECORD_BYTES_MAX; *found < limit; *found += sizeof bytes) {
        size_t count = limit - *found < sizeof bytes ? (size_t)(limit - *found) : sizeof bytes, at = 0;
        if (!ht_read_at(streams->log->fd, bytes, count, *found)) return false;  // the file has been cut
        while (at < count && !bytes[at]) at++;
        if (at == count) continue;
        *found += at;
        return true;
    }
    return false;
}

// The chunk cannot be read on. What it had is lost.
static void leave_chunk(struct streams *streams, struct stream *stream, const struct ht_error *error) {
    note_damage(streams, error);
    stream->damaged = true;
}

static void check_end_of_chunk(struct streams *streams, struct stream *stream) {
    struct ht_error error;
    uint64_t end, found;
    if (!ends_early(streams, stream, &end, &found)) return;
    ht_error_input(&error, streams->log->path, end, "expected records up to offset %" PRIu64 ", found zeros",
                   found);
    leave_chunk(streams, stream, &error);
}

static void check_end_of_stream(struct streams *streams, struct stream *stream) {
    struct ht_error error;
    const struct stream_chunk *last = stream->chunks ? &stream->chunk[stream->chunks - 1] : NULL;
    if (last && last->used && !stream->damaged) {
        ht_error_input(&error, streams->log->path, last->offset,
                       "expected a chunk of stream %zu after this one, found none",
                       (size_t)(stream - streams->stream));
        leave_chunk(streams, stream, &error);
    }
    if (stream->damaged) streams->damage.end_lost = 1;
}

// The header has the calls that streams had made when their threads ended: no fewer.
struct ht_raw_damage streams_damage(const struct streams *streams, bool whole) {
    struct ht_raw_damage damage = streams->damage;
    struct ht_error error;
    uint64_t calls = 0, lost = 0, said = whole ? streams->log->header.ended_calls : 0;
    for (size_t i = 0; i < streams->count; i++) {
        calls += streams->stream[i].calls;
        lost += streams->stream[i].lost_calls;
    }
    if (said > calls + lost && said <= streams->log->chunks_end / 2) {
        if (!damage.places) {
            ht_error_input(&error, streams->log->path, offsetof(struct ht_raw_header, ended_calls),
                           "expected %" PRIu64 " calls, found %" PRIu64, said, calls);
            ht_raw_note_damage(&damage, streams->log, &error);
        }
        lost = said - calls;
        damage.end_lost = 1;
    }
    damage.lost_calls += lost;
    // Pages that were no chunk's, and that no later chunk tells of, may have been a stream's last one.
    if (damage.bad_runs > damage.gaps && !said) damage.end_lost = 1;
    // There was a record at least.
    if (damage.end_lost && !damage.lost_calls) damage.lost_calls = 1;
    return damage;
}

// ---- decoding ----

// Begins the stream's next chunk. Returns 1, 0 if there is none, -1 with error.
static int begin_chunk(struct streams *streams, struct stream *stream, struct ht_error *error) {
    if (stream->next_chunk == stream->chunks) return 0;
    const struct stream_chunk *place = &stream->chunk[stream->next_chunk++];
    struct ht_raw_chunk chunk = {.base_stamp = place->base_stamp, .base_address = place->base_address};
    uint32_t from = place->from ? place->from : (uint32_t)sizeof chunk;
    compare_calls(streams, stream, place);
    stream->broken |= stream->damaged;
    stream->damaged = false;
    if (stream->broken) stream->decoder.spread = (struct ht_raw_spread){.pace = stream->decoder.spread.pace};
    if (place->bytes <= from) return 1;
    if (!place->from && read_at(streams->log, &chunk, sizeof chunk, place->offset, error)) return -1;
    const struct stream_place begin = {.stamp = chunk.base_stamp,
                                       .address = chunk.base_address,
                                       .site = place->base_site,
                                       .spread = stream->decoder.spread};
    stream->decoder = streams_decoder(streams, &begin, place->end_stamp);
    stream->decoder.at = stream->decoder.end = stream->base = stream->buffer;
    stream->buffer_offset = place->offset + from;
    stream->chunk_left = place->bytes - from;
    stream->in_chunk = true;
    return fill_buffer(streams, stream, error) ? -1 : 1;
}

// Decodes until the batch has so many records or the chunk ends. Returns 0 or -1 with error.
static int decode_some(struct streams *streams, struct stream *stream, uint32_t records,
                       struct ht_error *error) {
    bool all_timed = !streams->tick_stamps || stream != streams->stream;
    ptrdiff_t margin = all_timed ? BUFFER_MARGIN_BYTES : BUFFER_MARGIN_UNTIMED_BYTES;
    while (stream->batch_end < records) {
        if (stream->chunk_left && stream->decoder.end - stream->decoder.at < margin &&
            fill_buffer(streams, stream, error))
            return -1;
        const uint8_t *limit = stream->decoder.end - (stream->chunk_left ? BUFFER_MARGIN_BYTES : 0);
        size_t common = ht_raw_decode_common(&stream->decoder, limit, &stream->batch[stream->batch_end],
                                             records - stream->batch_end);
        stream->batch_end += (uint32_t)common;
        if (common) continue;
        int decoded = ht_raw_decode(&stream->decoder, &stream->batch[stream->batch_end]);
        if (decoded < 0) {
            struct ht_error damage;
            ht_error_input(&damage, streams->log->path,
                           stream->buffer_offset + (uint64_t)(stream->decoder.at - stream->base),
                           "expected a record, found 0x%02x", *stream->decoder.at);
            leave_chunk(streams, stream, &damage);
        } else if (decoded == 0) {
            check_end_of_chunk(streams, stream);
        }
        if (decoded <= 0) {
            stream->in_chunk = false;
            streams->bytes_read += stream->chunk_left;
            return 0;
        }
        const struct ht_raw_record *record = &stream->batch[stream->batch_end++];
        // Its words lie in the buffer, which stays as it is until the batch has been used.
        if (ht_raw_lists(record)) return 0;
    }
    return 0;
}

// Decodes the next batch, of so many records, into its memory. Returns 1, 0 at the stream's end, -1 with error.
static int next_batch(struct streams *streams, struct stream *stream, uint32_t records,
                      struct ht_error *error) {
    stream->batch_at = stream->batch_end = 0;
    while (stream->batch_end == 0) {
        if (!stream->in_chunk) {
            int begun = begin_chunk(streams, stream, error);
            if (begun <= 0) return begun;
            if (!stream->in_chunk) continue;
        }
        const uint64_t chunk = stream->chunk[stream->next_chunk - 1].offset;
        stream->batch_place = (struct stream_place){.chunk = chunk,
                                                    .at = (uint32_t)(stream->buffer_offset - chunk) +
                                                          (uint32_t)(stream->decoder.at - stream->base),
                                                    .stamp = stream->decoder.stamp,
                                                    .address = stream->decoder.address,
                                                    .site = stream->decoder.site,
                                                    .spread = stream->decoder.spread};
        if (decode_some(streams, stream, records, error)) return -1;
    }
    for (uint32_t i = 0; i < stream->batch_end; i++) stream->calls += ht_raw_counts(&stream->batch[i]);
    return 1;
}

// The memory of a stream, or of a look ahead.
static bool make_room(uint8_t **buffer, struct ht_raw_record **batch) {
    if (!*buffer) *buffer = malloc(BUFFER_BYTES + PADDING_BYTES);
    if (!*batch) *batch = malloc(STREAM_BATCH * sizeof **batch);
    return *buffer && *batch;
}

int streams_refill(struct streams *streams, struct stream *stream, struct ht_error *error) {
    assert(stream->batch_at == stream->batch_end);
    if (stream->ended) return 0;
    if (!make_room(&stream->buffer, &stream->batch))
        return ht_error_memory(error, streams->log->path, "cannot read a stream");
    int more = next_batch(streams, stream, STREAM_BATCH, error);
    if (more == 0) {
        stream->ended = !streams->growing;
        if (stream->ended) check_end_of_stream(streams, stream);
        release(stream);
    }
    return more;
}

// ---- looking ahead ----

static bool makes_live(const struct ht_raw_record *record) {
    switch (record->op) {
    case HT_RAW_MALLOC:
    case HT_RAW_CALLOC:
    case HT_RAW_ALIGNED:
    case HT_RAW_REALLOC_NULL:
    case HT_RAW_REALLOC_END: return !record->failed;
    default: return false;
    }
}

int streams_look_ahead(struct streams *streams, const struct stream *stream, uint32_t skip, uint64_t address,
                       bool live, uint64_t *stamp) {
    if (!make_room(&streams->ahead_buffer, &streams->ahead_batch)) return -1;
    // Copies read on, and leave all as it is, damage as well; the stream that may have calls without a time stays the first.
    struct stream ahead = *stream;
    struct streams copy = *streams;
    struct ht_error error;
    copy.stream = stream == streams->stream ? &ahead : NULL;
    uint32_t seen = 0;
    for (;;) {
        for (uint32_t at = ahead.batch_at; at < ahead.batch_end; at++) {
            const struct ht_raw_record *record = &ahead.batch[at];
            if (skip && skip--) continue;
            if (record->stamp > *stamp || seen++ == AHEAD_RECORDS_MAX) return 0;
            if (record->op == HT_RAW_LONG || record->address != address) continue;
            bool ends = record->op == HT_RAW_FREE || record->op == HT_RAW_REALLOC_BEGIN;
            if (live ? !makes_live(record) : !ends) continue;
            *stamp = record->stamp;
            return 1;
        }
        ahead.buffer = streams->ahead_buffer;
        ahead.batch = streams->ahead_batch;
        if (ahead.ended || next_batch(&copy, &ahead, AHEAD_BATCH, &error) <= 0) return 0;
    }
}

// ---- cut at a fork ----

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
