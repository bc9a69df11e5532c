// SPDX-License-Identifier: Apache-2.0
// The streams of a log that its program still writes: what has come since the last poll is found and handed
// on to the streams that the merge reads.
//
// The program stores a record's head by one store of eight bytes. Where that crosses a cache line, a reader
// beside it may see half of it. So what lies in an open chunk is handed on only when two polls, at least a
// millisecond apart, saw the same bytes; a chunk that has a successor is complete. Calls without a time wait for
// the stamp after them, or for a second stream, whose first stamp is one.
#ifndef HEAPTAPE_LIVE_STREAMS_H
#define HEAPTAPE_LIVE_STREAMS_H

#include "streams.h"

struct log_range {
    uint64_t offset, bytes;
};

struct log_ranges {
    struct log_range *range;
    size_t count, room;
};

struct live_stream {
    bool known;
    bool over;  // its thread is gone, and all of it has been handed on
    uint32_t index;
    uint32_t chunk_bytes;         // of the newest chunk
    struct stream_place trusted;  // what lies before it has been handed on
    uint8_t *seen;                // what the last poll saw behind it
    uint32_t seen_bytes;
    uint32_t polls_left;   // of a thread that is gone: until nothing can be missed; 0: not known to be gone
    uint32_t punched_end;  // the newest chunk is a hole up to here, except its first page
    struct log_ranges closed;  // chunks before the newest that take space yet
};

struct live_streams {
    struct ht_raw_log *log;
    struct streams *streams;
    struct live_stream *stream;  // as many as streams->count
    size_t room;
    struct log_ranges pending;  // handed out and not begun at the last poll, or a hole
    uint64_t frontier;          // all chunks before it are known, or pending
    bool final;                 // all that will ever be there is there
    bool second_known;          // the poll before knew a second stream: no more calls come without a time
    uint8_t *buffer;
    size_t buffer_room;
};

void live_streams_open(struct live_streams *live, struct ht_raw_log *log, struct streams *streams);
void live_streams_close(struct live_streams *live);

// Finds what has come. final: the program is gone, everything counts. Returns 0 or -1 with error.
int live_streams_poll(struct live_streams *live, bool final, struct ht_error *error);

// All calls up to that stamp which a poll has seen are handed on.
uint64_t live_streams_limit(const struct live_streams *live);

// Where the merge is in the stream: before the next record that it has not applied. Returns 0 or -1 with
// error.
int live_stream_place(const struct live_streams *live, uint32_t number, struct stream_place *place,
                      struct ht_error *error);

// What lies before it is not read again: at most a batch before where the merge is, because that place is
// found by reading the batch once more.
struct stream_place live_stream_needed(const struct live_streams *live, uint32_t number);

// Which chunk of its stream begins there. Returns 0 or -1 with error.
int live_chunk_at(const struct live_streams *live, uint64_t offset, uint32_t *index, uint32_t *bytes,
                  struct ht_error *error);

// All of the stream has been merged, and its thread is no more: nobody will read its chunks again.
bool live_stream_end(struct live_streams *live, uint32_t number);

// Makes the stream known that an earlier follower has left at a place. False for want of memory.
bool live_stream_restore(struct live_streams *live, uint32_t number, const struct live_stream *stream);

bool log_ranges_add(struct log_ranges *ranges, uint64_t offset, uint64_t bytes);

// ---- streams whose threads are no more: each leaves a chunk that nobody closes, and a program that starts
// threads for days would fill the disk with them ----

// Notes which threads are gone, if the log's process can be read.
void gone_threads_note(struct live_streams *live);

// The poll behind us found no more in the stream. True once that is certain to be so for ever.
bool gone_threads_confirm(struct live_streams *live, uint32_t number);

#endif
