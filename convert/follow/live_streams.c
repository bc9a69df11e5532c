// SPDX-License-Identifier: Apache-2.0
#include "live_streams.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"
#include "grow.h"
#include "raw_state.h"

enum {
    PADDING_BYTES = 64,
    POLL_BYTES = 4096,      // read of an open chunk before it is known that there is more
    CALL_ROOM_BYTES = 256,  // a call with its modifiers is shorter
    ZEROS_MAX = 64          // no record holds so many zeros in a row
};

static int no_memory(const struct live_streams *live, struct ht_error *error) {
    return ht_error_memory(error, live->log->path, "cannot follow the log");
}

bool log_ranges_add(struct log_ranges *ranges, uint64_t offset, uint64_t bytes) {
    struct log_range *last = ranges->count ? &ranges->range[ranges->count - 1] : NULL;
    if (last && last->offset + last->bytes == offset) {
        last->bytes += bytes;
        return true;
    }
    if (!ht_grow(&ranges->range, &ranges->room, ranges->count + 1, sizeof *ranges->range)) return false;
    ranges->range[ranges->count++] = (struct log_range){offset, bytes};
    return true;
}

void live_streams_open(struct live_streams *live, struct ht_raw_log *log, struct streams *streams) {
    *live = (struct live_streams){.log = log, .streams = streams, .frontier = HT_RAW_HEADER_BYTES};
}

void live_streams_close(struct live_streams *live) {
    for (size_t i = 0; i < live->room; i++) {
        free(live->stream[i].seen);
        free(live->stream[i].closed.range);
    }
    free(live->stream);
    free(live->pending.range);
    free(live->buffer);
    *live = (struct live_streams){0};
}

static bool make_room(struct live_streams *live, uint32_t number) {
    if (!streams_grow(live->streams, number)) return false;
    if (number >= live->streams->count) live->streams->count = (size_t)number + 1;
    return ht_grow(&live->stream, &live->room, live->streams->room, sizeof *live->stream);
}

static uint8_t *buffer_of(struct live_streams *live, size_t bytes) {
    return ht_grow(&live->buffer, &live->buffer_room, bytes + PADDING_BYTES, 1) ? live->buffer : NULL;
}

// ---- what is handed on ----

// The file ends where a chunk lay, or cannot be read. EINVAL: no file is so long.
static int cannot_read(const struct live_streams *live, uint64_t offset, struct ht_error *error) {
    if (errno && errno != EINVAL) return ht_error_system(error, live->log->path, "cannot read");
    return ht_error_input(error, live->log->path, offset, "expected a chunk, found the end of the file");
}

// Which stream a nested one belongs to is written behind the chunk's magic, but before its first record.
static void learn_outer(struct live_streams *live, uint32_t number, const struct ht_raw_chunk *header) {
    struct stream *stream = &live->streams->stream[number];
    struct ht_error error;
    stream->tid = header->tid;
    if (header->outer <= number) {
        stream->outer = header->outer;
        return;
    }
    ht_error_input(&error, live->log->path, live->stream[number].trusted.chunk,
                   "expected a stream nested in an earlier one, found %" PRIu32 " in %" PRIu32, number,
                   header->outer - 1);
    ht_raw_note_damage(&live->streams->damage, live->log, &error);
}

// Hands the newest chunk on up to `end`. used, end_stamp: of one that will not be written any more, if they are known; or 0.
// Returns 0 or -1 with error.
static int hand_on(struct live_streams *live, uint32_t number, uint32_t end, uint32_t used,
                   uint64_t end_stamp, struct ht_error *error) {
    struct live_stream *known = &live->stream[number];
    struct stream *stream = &live->streams->stream[number];
    const struct stream_place *from = &known->trusted;
    struct ht_raw_chunk header = {.calls_before = CALLS_UNSAID};
    if (end <= from->at) return 0;
    if (from->at == sizeof header) {
        if (!ht_read_at(live->log->fd, &header, sizeof header, from->chunk))
            return cannot_read(live, from->chunk, error);
        if (known->index == 0 || live->final) learn_outer(live, number, &header);
    }
    // What the merge has read is forgotten, except the part that it is at.
    if (stream->next_chunk > 1) {
        uint32_t gone = stream->next_chunk - 1;
        memmove(stream->chunk, stream->chunk + gone, (stream->chunks - gone) * sizeof *stream->chunk);
        stream->chunks -= gone;
        stream->next_chunk = 1;
    }
    live->streams->bytes_total += end - from->at;
    return stream_add_chunk(stream, (struct stream_chunk){.offset = from->chunk,
                                                          .base_stamp = from->stamp,
                                                          .base_address = from->address,
                                                          .base_site = from->site,
                                                          .bytes = end,
                                                          .used = used,
                                                          .from = from->at,
                                                          .calls_before = header.calls_before,
                                                          .end_stamp = end_stamp})
               ? 0
               : no_memory(live, error);
}

static void forget_seen(struct live_stream *known) {
    free(known->seen);
    known->seen = NULL;
    known->seen_bytes = 0;
}

// Where the decoder is, behind `start`.
static struct stream_place place_of(const struct ht_raw_decoder *decoder, const uint8_t *buffer,
                                    const struct stream_place *start) {
    return (struct stream_place){.chunk = start->chunk,
                                 .at = start->at + (uint32_t)(decoder->at - buffer),
                                 .stamp = decoder->stamp,
                                 .address = decoder->address,
                                 .site = decoder->site,
                                 .spread = decoder->spread};
}

// The records that lie whole within `bytes` bytes behind what is trusted. Moves *place behind them: `timed`, behind
// the last stamp among them. What is damaged is left to the merge, which gets the chunk's rest once it is closed.
static void decode_whole(const struct live_streams *live, const uint8_t *buffer, size_t bytes, bool timed,
                         struct stream_place *place) {
    const struct stream_place start = *place;
    struct ht_raw_decoder decoder = streams_decoder(live->streams, &start, 0);
    struct ht_raw_record record;
    decoder.at = buffer;
    decoder.end = buffer + bytes;
    while (ht_raw_decode(&decoder, &record) > 0)
        if (!timed || !decoder.spread.calls) *place = place_of(&decoder, buffer, &start);
}

// Reads what lies behind `at` in the newest chunk, as far as something is there. Returns its length, or -1
// with error.
static long read_behind(struct live_streams *live, const struct live_stream *known, struct ht_error *error) {
    const struct stream_place *from = &known->trusted;
    size_t room = known->chunk_bytes - from->at, bytes = known->seen_bytes + POLL_BYTES;
    uint8_t *buffer = buffer_of(live, room);
    if (!buffer) return no_memory(live, error);
    for (;;) {
        if (bytes > room) bytes = room;
        if (!ht_read_at(live->log->fd, buffer, bytes, from->chunk + from->at)) {
            if (!errno) return 0;  // the file has been cut behind its last chunk: there is nothing
            return ht_error_system(error, live->log->path, "cannot read");
        }
        size_t end = bytes;
        while (end && !buffer[end - 1]) end--;
        if (bytes == room || end + ZEROS_MAX <= bytes) {
            memset(buffer + bytes, 0, PADDING_BYTES);
            return (long)end;
        }
        bytes = room;
    }
}

// Must calls of the stream wait for the stamp after them?
static bool waits_for_stamps(const struct live_streams *live, uint32_t number) {
    return number == 0 && live->streams->tick_stamps && !live->second_known;
}

// The newest chunk may be written at this moment. Returns 0 or -1 with error.
static int poll_open(struct live_streams *live, uint32_t number, struct ht_error *error) {
    struct live_stream *known = &live->stream[number];
    long bytes = read_behind(live, known, error);
    if (bytes <= 0) return (int)bytes;
    size_t same = 0, most = (size_t)bytes < known->seen_bytes ? (size_t)bytes : known->seen_bytes;
    while (same < most && live->buffer[same] == known->seen[same]) same++;
    struct stream_place now = known->trusted;
    uint32_t before = now.at;
    // A record may end in zeros, which both polls saw as well.
    if (same == (size_t)bytes && same == known->seen_bytes) same += ZEROS_MAX;
    if (same > known->chunk_bytes - before) same = known->chunk_bytes - before;
    if (same) decode_whole(live, live->buffer, same, waits_for_stamps(live, number), &now);
    if (hand_on(live, number, now.at, 0, 0, error)) return -1;
    known->trusted = now;
    uint32_t taken = now.at - before;
    known->seen_bytes = taken < (size_t)bytes ? (uint32_t)bytes - taken : 0;
    if (!known->seen_bytes) {
        forget_seen(known);
        return 0;
    }
    uint8_t *seen = realloc(known->seen, known->seen_bytes);
    if (!seen) return no_memory(live, error);
    known->seen = seen;
    memcpy(seen, live->buffer + taken, known->seen_bytes);
    return 0;
}

// The newest chunk will not be written any more: all of it counts. end_stamp: of the next one, or 0. Returns 0
// or -1 with error.
static int poll_closed(struct live_streams *live, uint32_t number, uint64_t end_stamp,
                       struct ht_error *error) {
    struct live_stream *known = &live->stream[number];
    struct ht_raw_chunk header;
    if (!ht_read_at(live->log->fd, &header, sizeof header, known->trusted.chunk))
        return cannot_read(live, known->trusted.chunk, error);
    uint32_t used = header.used <= known->chunk_bytes ? header.used : 0,
             end = used ? used : known->chunk_bytes;
    forget_seen(known);
    if (hand_on(live, number, end, used, end_stamp, error)) return -1;
    known->trusted.at = end;
    return 0;
}

// ---- new chunks ----

// A chunk of the stream that has not been met before. Returns 1, 0 if it is not yet its turn, -1 with error.
static int meet_chunk(struct live_streams *live, const struct ht_raw_chunk *chunk, uint64_t at,
                      struct ht_error *error) {
    if (!make_room(live, chunk->stream)) return no_memory(live, error);
    struct live_stream *known = &live->stream[chunk->stream];
    struct stream *stream = &live->streams->stream[chunk->stream];
    // One that an earlier follower has merged, without a hole yet.
    if (known->known && (chunk->index < known->index || known->over))
        return log_ranges_add(&known->closed, at, chunk->bytes) ? 1 : no_memory(live, error);
    if (known->known && chunk->index == known->index) return 1;
    // Its predecessor was begun after we had passed its place; or is lost.
    if (chunk->index != (known->known ? known->index + 1 : 0) && !live->final) return 0;
    if (known->known) {
        if (poll_closed(live, chunk->stream, chunk->base_stamp, error)) return -1;
        if (!log_ranges_add(&known->closed, known->trusted.chunk, known->chunk_bytes))
            return no_memory(live, error);
    } else {
        stream->first_stamp = chunk->base_stamp;
        stream->tid = chunk->tid;
        streams_note_begin(live->streams, chunk->stream, chunk->base_stamp);
        known->known = true;
    }
    uint64_t bytes = chunk->bytes;
    if (bytes > live->log->chunks_end - at) bytes = live->log->chunks_end - at;
    known->index = chunk->index;
    known->punched_end = 0;
    known->chunk_bytes = (uint32_t)bytes;
    known->trusted = (struct stream_place){
        .chunk = at, .at = sizeof *chunk, .stamp = chunk->base_stamp, .address = chunk->base_address};
    return 1;
}

// Searches a range; what is not a chunk yet goes to `still`. Returns 0 or -1 with error.
static int search_range(struct live_streams *live, struct log_range range, struct log_ranges *still,
                        struct ht_error *error) {
    uint64_t offset = range.offset, end = range.offset + range.bytes;
    const struct ht_raw_log part = {.path = live->log->path, .fd = live->log->fd, .chunks_end = end};
    struct ht_raw_damage *damage = &live->streams->damage;
    struct ht_raw_chunk chunk;
    uint64_t at;
    while (offset < end) {
        int more = ht_raw_next_chunk(&part, offset, &chunk, &at, error);
        if (!more) return log_ranges_add(still, offset, end - offset) ? 0 : no_memory(live, error);
        if (more > 0 && !ht_raw_stream_possible(live->log, chunk.stream))
            more = ht_raw_bad_stream(live->log, &chunk, at, error);
        if (more < 0) {
            uint64_t from = offset;
            if (!ht_raw_pass_page(damage, live->log, at, &offset, error)) return -1;
            if (at > from && !log_ranges_add(still, from, at - from)) return no_memory(live, error);
            continue;
        }
        int met = meet_chunk(live, &chunk, at, error);
        if (met < 0) return -1;
        uint64_t next = at + chunk.bytes < end ? at + chunk.bytes : end;
        if (at > offset && !log_ranges_add(still, offset, at - offset)) return no_memory(live, error);
        if (!met && !log_ranges_add(still, at, next - at)) return no_memory(live, error);
        offset = next;
    }
    return 0;
}

static int find_chunks(struct live_streams *live, struct ht_error *error) {
    struct ht_raw_log *log = live->log;
    struct stat status;
    if (fstat(log->fd, &status) || !ht_read_at(log->fd, &log->header, sizeof log->header, 0))
        return ht_error_system(error, log->path, "cannot read");
    log->file_bytes = (uint64_t)status.st_size;
    log->chunks_end = log->header.chunks_end < log->file_bytes ? log->header.chunks_end : log->file_bytes;
    if (log->chunks_end > live->frontier) {
        if (!log_ranges_add(&live->pending, live->frontier, log->chunks_end - live->frontier))
            return no_memory(live, error);
        live->frontier = log->chunks_end;
    }
    struct log_ranges before = live->pending;
    live->pending = (struct log_ranges){0};
    int status_code = 0;
    for (size_t i = 0; i < before.count && !status_code; i++)
        status_code = search_range(live, before.range[i], &live->pending, error);
    free(before.range);
    return status_code;
}

int live_streams_poll(struct live_streams *live, bool final, struct ht_error *error) {
    live->second_known = live->streams->second_stamp != 0;
    live->final = final;
    if (find_chunks(live, error)) return -1;
    for (uint32_t i = 0; i < live->streams->count; i++) {
        if (!live->stream[i].known || live->stream[i].over) continue;
        if (final ? poll_closed(live, i, 0, error) : poll_open(live, i, error)) return -1;
    }
    return 0;
}

uint64_t live_streams_limit(const struct live_streams *live) {
    if (!live->streams->count || !waits_for_stamps(live, 0) || !live->stream[0].seen_bytes) return UINT64_MAX;
    uint64_t stamp = live->stream[0].trusted.stamp;
    return stamp - (stamp > 0);
}

// ---- where the merge is ----

// Moves the place over that many records of the part, of a batch, which has one of a call site at most. Returns 0 or -1 with error.
static int step_over(const struct live_streams *live, struct stream_place *place,
                     const struct stream_chunk *part, uint32_t records, struct ht_error *error) {
    size_t bytes = part->bytes - place->at,
           most = (size_t)records * CALL_ROOM_BYTES + STREAM_RECORD_BYTES_MAX + HT_UNTIMED_BYTES_MAX;
    if (bytes > most) bytes = most;
    uint8_t *buffer = calloc(1, bytes + PADDING_BYTES);
    if (!buffer) return no_memory(live, error);
    struct ht_raw_decoder decoder = streams_decoder(live->streams, place, part->end_stamp);
    decoder.at = buffer;
    decoder.end = buffer + bytes;
    struct ht_raw_record record;
    int status = ht_read_at(live->log->fd, buffer, bytes, place->chunk + place->at)
                     ? 0
                     : cannot_read(live, place->chunk + place->at, error);
    for (uint32_t i = 0; i < records && !status; i++)
        if (ht_raw_decode(&decoder, &record) <= 0)
            status = ht_error_input(error, live->log->path, place->chunk + place->at,
                                    "expected a record, found 0x%02x", *decoder.at);
    *place = place_of(&decoder, buffer, place);
    free(buffer);
    return status;
}

struct stream_place live_stream_needed(const struct live_streams *live, uint32_t number) {
    const struct stream *stream = &live->streams->stream[number];
    if (stream->buffer) return stream->batch_place;
    if (stream->next_chunk == stream->chunks) return live->stream[number].trusted;
    const struct stream_chunk *part = &stream->chunk[stream->next_chunk];
    return (struct stream_place){.chunk = part->offset,
                                 .at = part->from,
                                 .stamp = part->base_stamp,
                                 .address = part->base_address,
                                 .site = part->base_site};
}

int live_stream_place(const struct live_streams *live, uint32_t number, struct stream_place *place,
                      struct ht_error *error) {
    const struct stream *stream = &live->streams->stream[number];
    *place = live_stream_needed(live, number);
    if (stream->buffer)
        return step_over(live, place, &stream->chunk[stream->next_chunk - 1], stream->batch_at, error);
    place->spread = stream->decoder.spread;
    return 0;
}

int live_chunk_at(const struct live_streams *live, uint64_t offset, uint32_t *index, uint32_t *bytes,
                  struct ht_error *error) {
    struct ht_raw_chunk chunk;
    if (!ht_read_at(live->log->fd, &chunk, sizeof chunk, offset)) return cannot_read(live, offset, error);
    if (chunk.magic != HT_CHUNK_MAGIC || chunk.bytes > HT_CHUNK_BYTES_MAX)
        return ht_error_input(error, live->log->path, offset, "expected a chunk (HTWN), found 0x%08" PRIx32,
                              chunk.magic);
    *index = chunk.index;
    *bytes = (uint32_t)chunk.bytes;
    return 0;
}

bool live_stream_end(struct live_streams *live, uint32_t number) {
    struct live_stream *known = &live->stream[number];
    known->over = true;
    forget_seen(known);
    return log_ranges_add(&known->closed, known->trusted.chunk, known->chunk_bytes);
}

bool live_stream_restore(struct live_streams *live, uint32_t number, const struct live_stream *stream) {
    if (!make_room(live, number)) return false;
    live->stream[number] = *stream;
    return true;
}

// ---- threads that are no more ----

// A poll that began after the thread had gone sees all; what it saw counts at the next one.
enum { POLLS_AFTER = 3 };

struct thread_ids {
    uint32_t *id;
    size_t count, room;
};

static bool add(struct thread_ids *ids, uint32_t id) {
    if (!ht_grow(&ids->id, &ids->room, ids->count + 1, sizeof *ids->id)) return false;
    ids->id[ids->count++] = id;
    return true;
}

static int by_id(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

// The process's threads. False if they cannot be known.
static bool list_threads(uint32_t pid, struct thread_ids *ids) {
    char path[64];
    struct dirent *entry;
    bool whole = true;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *folder = opendir(path);
    if (!folder) return false;
    while (whole && (entry = readdir(folder))) {
        unsigned long id = strtoul(entry->d_name, NULL, 10);
        if (id) whole = add(ids, (uint32_t)id);
    }
    closedir(folder);
    if (ids->count) qsort(ids->id, ids->count, sizeof *ids->id, by_id);
    return whole && ids->count > 0;
}

// A listing may pass over living threads while others end: each that it lacks is asked for by itself. All of
// /proc is asked, so that one that shares its memory without being a thread of the process counts as well.
static bool is_gone(uint32_t tid, const struct thread_ids *ids) {
    char path[64];
    if (bsearch(&tid, ids->id, ids->count, sizeof *ids->id, by_id)) return false;
    snprintf(path, sizeof path, "/proc/%u", tid);
    return access(path, F_OK) && errno == ENOENT;
}

void gone_threads_note(struct live_streams *live) {
    struct thread_ids ids = {0};
    // Process and thread ids are those of the program's namespace: only where it is ours do they mean
    // anything.
    if (ht_raw_is_mapped(live->log) && list_threads(live->log->header.pid, &ids)) {
        for (size_t i = 0; i < live->streams->count; i++) {
            uint32_t tid = live->streams->stream[i].tid;
            struct live_stream *known = &live->stream[i];
            if (!known->known || known->over || known->polls_left || !tid) continue;
            if (is_gone(tid, &ids)) known->polls_left = POLLS_AFTER;
        }
    }
    free(ids.id);
}

bool gone_threads_confirm(struct live_streams *live, uint32_t number) {
    struct live_stream *known = &live->stream[number];
    return known->polls_left > 0 && known->seen_bytes == 0 && --known->polls_left == 0;
}
