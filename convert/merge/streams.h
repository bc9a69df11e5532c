// SPDX-License-Identifier: Apache-2.0
// The streams of one raw log, read side by side in bounded memory: a piece of the current chunk for each
// stream that is under way, and a batch of decoded records. Where a chunk is damaged, its stream goes on at its next chunk,
// which says how many calls the stream made before.
#ifndef HEAPTAPE_STREAMS_H
#define HEAPTAPE_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "raw_reader.h"

enum {
    STREAM_BATCH = 32,
    STREAM_RECORD_BYTES_MAX = 2304  // of any record, one of a module or a call site too
};
#define CALLS_UNSAID UINT64_MAX

// A chunk, or a part of one.
struct stream_chunk {
    uint64_t offset;
    uint64_t base_stamp;  // no call in it is stamped earlier
    uint32_t bytes;
    uint32_t used;  // its records end there, or at a zero before; 0: it is the stream's last, or cut off
    uint32_t from;  // where in the chunk its records begin; 0: behind the header, which is to be read
    uint64_t base_address;  // unless the header is to be read
    uint32_t base_site;     // likewise: of the next allocation
    uint64_t end_stamp;     // all of it was over by then; 0: not known
    bool after_gap;         // chunks of the stream seem to be missing before it
    uint64_t
        calls_before;  // calls of the stream in earlier chunks; CALLS_UNSAID: the chunk has begun already
};

// A place between two records.
struct stream_place {
    uint64_t chunk;  // offset of the chunk in the file
    uint32_t at;     // bytes into it
    uint64_t stamp, address;
    uint32_t site;  // of the next allocation
    struct ht_raw_spread spread;
};

struct stream {
    uint32_t tid;
    uint32_t outer;              // number of the stream that this one is nested in, plus one; 0: none
    uint64_t first_stamp;        // no record is stamped earlier
    struct stream_chunk *chunk;  // in order
    uint32_t chunks, next_chunk;
    uint32_t next_index;  // of its next chunk
    size_t chunks_room;
    // What is being decoded.
    uint8_t *buffer;
    const uint8_t *base;     // what is decoded; the buffer, except of one that only looks ahead
    uint64_t buffer_offset;  // where in the file its first byte lies
    uint64_t chunk_left;     // bytes of the chunk behind the buffer
    struct ht_raw_decoder decoder;
    bool in_chunk;
    struct stream_place batch_place;  // where the batch begins
    // Records decoded ahead.
    struct ht_raw_record *batch;
    uint32_t batch_at, batch_end;
    bool ended;
    uint64_t calls;       // decoded, the batch's too
    uint64_t lost_calls;  // that a chunk has said were made before it, and were not decoded
    bool damaged;         // the rest of the chunk that was begun last
    bool broken;          // records are missing before the batch, which whoever reads it has not heeded yet
};

struct streams {
    const struct ht_raw_log *log;
    struct stream *stream;
    size_t count, room;
    uint64_t bytes_total, bytes_read;  // for progress
    bool growing;                      // more chunks may come
    uint64_t tick_stamps;              // of a log that may have calls without a time
    uint64_t second_stamp;             // when its second stream began; 0: there is none
    struct ht_raw_damage damage;       // without what the streams have lost
    uint8_t *ahead_buffer;             // to look ahead with
    struct ht_raw_record *ahead_batch;
};

// Finds all chunks. Returns 0 or -1 with error.
int streams_open(struct streams *streams, const struct ht_raw_log *log, struct ht_error *error);
void streams_close(struct streams *streams);

// Makes room for a stream of that number. False for want of memory.
bool streams_grow(struct streams *streams, uint32_t number);
// A stream of that number begins there.
void streams_note_begin(struct streams *streams, uint32_t number, uint64_t stamp);
bool stream_add_chunk(struct stream *stream, struct stream_chunk chunk);

// To decode a part of the stream's chunk that begins at the place.
struct ht_raw_decoder streams_decoder(const struct streams *streams, const struct stream_place *place,
                                      uint64_t end_stamp);

// Decodes the stream's next batch. Returns 1, 0 at its end (its memory is then released), -1 with error. Of a
// growing log, 0 says that there is no more for now.
int streams_refill(struct streams *streams, struct stream *stream, struct ht_error *error);

// All that is damaged, once the streams are at their end. whole: that is the log's end.
struct ht_raw_damage streams_damage(const struct streams *streams, bool whole);

// Looks through the stream's records behind the next `skip`, a few hundred at most, for one that makes the
// address live, or else ends its block. *stamp: of the first one, if it is no later than *stamp; else it stays. Returns 1, 0
// if there is none, -1 for want of memory.
int streams_look_ahead(struct streams *streams, const struct stream *stream, uint32_t skip, uint64_t address,
                       bool live, uint64_t *stamp);

// ---- a parent's streams, cut where a child was forked from it: what is left is what the child inherited ----
//
// The forking thread's stream is cut at the fork record that it wrote, in program order; the others by the
// record's stamp, because nothing else shows what they had done by then.

struct fork_point {
    uint64_t stamp;
    bool has_record;  // the stamp is the fork's own, and the forking thread may have left a fork record with
                      // it
};

// slack_stamps: how far stamps of two cores may be apart. Nothing of the streams has been read yet.
// Returns 0 or -1 with error.
int streams_cut_at_fork(struct streams *streams, const struct fork_point *fork, uint64_t slack_stamps,
                        struct ht_error *error);

#endif
