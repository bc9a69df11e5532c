// SPDX-License-Identifier: Apache-2.0
// The chunks of a thread's stream, and what appends and other work of the recorder's cost.
#ifndef HEAPTAPE_CHUNKS_H
#define HEAPTAPE_CHUNKS_H

#include "state.h"

// The chunk's own end of room: behind it no append may start, whatever full_or_probe_at is.
HIDDEN uint8_t *chunk_append_end(const struct thread_state *t);
// Has the thread a chunk, and in it room for a record?
HIDDEN bool chunk_has_room(const struct thread_state *t);
// Sets where the next record may not begin unchecked.
HIDDEN void chunk_set_full_or_probe(struct thread_state *t);

// Begins the stream's next chunk, whatever room the last one has. False if recording had to stop.
HIDDEN bool chunk_next(struct thread_state *t);
// Does so after a jump has left the last append in the midst of a record.
HIDDEN bool chunk_next_after_jump(struct thread_state *t);

// "Is there room?" is asked at three levels, each named for what it makes room for:
//   room_for_record, and room_for_call (sites.h), room_for_free (freed_probe.h)
//                                   a record in the thread's chunk, modifiers included: before every append
//   room_for_chunk                  a chunk in the file: its offset (chunks.c)
//   log_has_room_in_memory          a log that takes memory, in what the machine has left (log_file.h)
// The first two are one comparison. Their slow halves are entered at full_or_probe_at: they begin the next
// chunk if this one is full, else set the next such address. False: recording had to stop, and nothing may be
// appended.
HIDDEN bool room_for_record_slowly(struct thread_state *t);

static inline bool room_for_record(struct thread_state *t) {
    return likely(t->cursor.at < t->full_or_probe_at) || room_for_record_slowly(t);
}

// Measures what an append costs in this process, in counts of the clock, and notes the least so far in the
// header. Takes some microseconds.
HIDDEN void append_cost_measure(struct ht_raw_header *header);

// Work other than appends took the counts of the clock since then.
static inline void upkeep_took(struct ht_raw_header *header, uint64_t before_counts) {
    __atomic_fetch_add(&header->upkeep_counts, clock_counter() - before_counts, __ATOMIC_RELAXED);
}

#endif
