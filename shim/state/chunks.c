// SPDX-License-Identifier: Apache-2.0
// The chunks of a thread's stream: small at first, growing, each made real before it is written.
#include "chunks.h"

#include <errno.h>

#include "clock.h"
#include "log_file.h"
#include "seal.h"
#include "settings.h"
#include "sparse_stamps.h"
#include "sys.h"

enum {
    CHUNK_BYTES_FIRST = 4096,      // what a short-lived thread costs
    CHUNK_BYTES_LAST = 512 << 10,  // about 0.2 ms of the kernel's work at once
    DOUBLINGS = 7
};

uint8_t *chunk_append_end(const struct thread_state *t) { return t->chunk_end - HT_APPEND_ROOM_BYTES; }

// The next freed block is probed some hundred bytes of records later: at random distances, so that no pattern
// of the program is always hit. The fast path's one comparison covers this and the chunk's end, and costs no
// more. A probe waits for all that the processor has under way: a stream of many calls has enough of them, and gets fewer.
void chunk_set_full_or_probe(struct thread_state *t) {
    enum { DISTANCE_BITS = 9, DISTANCE_BYTES_MIN = 128 };
    uint64_t mixed = (t->cursor.last_stamp ^ t->cursor.last_address) * UINT64_C(0x9e3779b97f4a7c15);
    unsigned more_bits = t->chunk_end - (uint8_t *)t->chunk < CHUNK_BYTES_LAST ? 0 : 2;
    uint8_t *due = t->cursor.at + ((DISTANCE_BYTES_MIN + (mixed >> (64 - DISTANCE_BITS))) << more_bits);
    uint8_t *end = chunk_append_end(t);
    t->full_or_probe_at = due < end ? due : end;
    t->call_full_at = settings.site_frames ? NULL : t->full_or_probe_at;
}

bool chunk_has_room(const struct thread_state *t) { return t->chunk && t->cursor.at < chunk_append_end(t); }

// A chunk's place in the file: bytes cut down to what the reservation has left, 0 if that is nothing and the file cannot
// grow, for which `failed` is the errno.
static uint64_t room_for_chunk(struct recording *recording, uint64_t *bytes, bool may_call, int *failed) {
    uint64_t wanted = *bytes;
    uint64_t offset = __atomic_fetch_add(&recording->header->chunks_end, wanted, __ATOMIC_SEQ_CST);
    // Read only now: a thread that lowers the reservation either sees our place or is seen here.
    uint64_t end = atomic_load(&recording->reserve_bytes), real = atomic_load(&recording->real_bytes);
    if (!may_call && real < end) end = real;
    if (offset + wanted > end) *bytes = offset < end ? (end - offset) & ~(uint64_t)(HT_CHUNK_ALIGN - 1) : 0;
    if (*bytes) return offset;
    *failed = may_call ? log_grow_after_exit(recording, offset, wanted) : EFBIG;
    *bytes = wanted;
    return *failed ? 0 : offset;
}

static enum ht_stop_reason why_no_place(bool may_call, int failed) {
    if (!may_call) return HT_STOP_SANDBOX;
    return failed == EFBIG ? HT_STOP_SIZE_LIMIT : failed == ENOSPC ? HT_STOP_NO_SPACE : HT_STOP_EXIT;
}

static bool is_out_of_prepared_room(const struct recording *recording) {
    return __atomic_load_n(&recording->header->chunks_end, __ATOMIC_RELAXED) >= recording->real_bytes;
}

// The log ends where there is no place, if it may.
static bool place_chunk(struct thread_state *t, bool may_call, bool may_end) {
    struct recording *recording = t->recording;
    struct ht_raw_chunk *old = t->chunk;
    uint32_t index = old ? old->index + 1 : 0;
    uint64_t bytes = index < DOUBLINGS ? (uint64_t)CHUNK_BYTES_FIRST << index : CHUNK_BYTES_LAST;
    int failed = 0;
    uint64_t offset = room_for_chunk(recording, &bytes, may_call, &failed);
    if (!offset && !may_end) return false;
    if (!offset) {
        // A limit, of which EFBIG says no more than the reason does.
        log_end(recording, why_no_place(may_call, failed), failed == EFBIG ? 0 : failed, EPOCH_OFF);
        return false;
    }
    if (may_call && !log_has_room_in_memory(recording, offset + bytes)) {
        log_end(recording, HT_STOP_MEMORY, 0, EPOCH_OFF);
        return false;
    }
    failed = may_call ? log_make_real(recording, offset, bytes) : 0;
    if (failed) {
        log_end(recording, HT_STOP_NO_SPACE, failed, EPOCH_OFF);
        return false;
    }
    struct ht_raw_chunk *chunk = (struct ht_raw_chunk *)((char *)recording->header + offset);
    *chunk = (struct ht_raw_chunk){
        .stream = old ? old->stream : __atomic_fetch_add(&recording->header->streams, 1, __ATOMIC_RELAXED),
        .tid = old        ? old->tid
               : may_call ? sys_gettid()
                          : 0,
        .index = index,
        .bytes = bytes,
        .base_stamp = t->cursor.last_stamp,
        .base_address = t->cursor.last_address,
        .outer = old ? old->outer : 0,
        .calls_before = t->calls};
    // The old chunk is closed only now: had this one failed, its calls would be counted from its records.
    if (old) old->used = (uint32_t)(t->cursor.at - (uint8_t *)old);
    __atomic_store_n(&chunk->magic, HT_CHUNK_MAGIC, __ATOMIC_RELEASE);
    t->chunk = chunk;
    t->chunk_end = (uint8_t *)chunk + bytes;
    t->cursor.at = (uint8_t *)(chunk + 1);
    t->site = 0;
    chunk_set_full_or_probe(t);
    if (old) log_release_pages(old);
    return true;
}

bool room_for_record_slowly(struct thread_state *t) {
    if (!chunk_has_room(t)) return chunk_next(t);
    if (t->cursor.at >= t->full_or_probe_at)
        chunk_set_full_or_probe(t);  // a probe was due, but this is no free
    return true;
}

bool chunk_next_after_jump(struct thread_state *t) {
    if (t->chunk) ht_close_after_jump(&t->cursor);
    return chunk_next(t);
}

// A chunk's place is made real by system calls, or is a piece of what was prepared for a seal.
enum room_kind { ROOM_NONE, ROOM_MADE, ROOM_PREPARED };

// None where another thread has been taking the seal off for too long.
static enum room_kind find_room(const struct recording *recording) {
    for (unsigned tries = 0; tries < 2; tries++) {
        if (recorder_may_call()) return ROOM_MADE;
        if (!is_out_of_prepared_room(recording) && seal_begins_in_prepared_room()) return ROOM_PREPARED;
        if (seal_rules_filter_out_at_once() && recorder_may_call()) return ROOM_MADE;
        if (seal_begins_in_prepared_room()) return ROOM_PREPARED;
    }
    return ROOM_NONE;
}

static bool place_in_room(struct thread_state *t, enum room_kind room, bool may_end) {
    // A handler that jumps away must not leave a chunk behind that is half ours.
    uint64_t signals = room == ROOM_MADE ? sys_block_signals() : 0;
    // Stopped meanwhile by another thread: the mapping's end may be full or gone.
    bool done = room != ROOM_NONE && epoch_now() == t->epoch && place_chunk(t, room == ROOM_MADE, may_end);
    if (room == ROOM_MADE) {
        sys_restore_signals(signals);
        recorder_has_called();
    } else if (room == ROOM_PREPARED) {
        seal_has_placed();
    }
    return done;
}

bool chunk_next(struct thread_state *t) {
    int saved = errno;
    uint64_t before = clock_counter(), stamp = before >> CLOCK_SHIFT;
    struct recording *recording = t->recording;
    if (stamp > t->cursor.last_stamp) t->cursor.last_stamp = stamp;
    enum room_kind room = find_room(recording);
    bool is_last = room != ROOM_PREPARED || is_out_of_prepared_room(recording);
    // Other threads may have taken the rest of what was prepared: only then it is asked whether the seal may come off.
    bool done = place_in_room(t, room, is_last) || (!is_last && place_in_room(t, find_room(recording), true));
    if (!done) __atomic_fetch_add(&recording->header->lost_calls, 1, __ATOMIC_RELAXED);
    upkeep_took(recording->header, before);
    errno = saved;
    return done;
}

// ---- what recording costs ----

// A short run of appends into a scratch chunk: the figure is that of a warm cache, a floor.
enum { CALLS = 128, ROUNDS = 4 };

static uint64_t one_round(void) {
    uint8_t chunk[CALLS * 16 + HT_APPEND_ROOM_BYTES];
    struct ht_cursor cursor = {.at = chunk, .last_stamp = stamp_now()};
    uint64_t start = clock_counter();
    for (unsigned call = 0; call < CALLS / 2; call++) {
        uint64_t block = 0x10000 + 2654435761u * (uint64_t)call % 1048576;
        ht_append_call(&cursor, HT_RAW_MALLOC, stamp_if_due(), block, 16 + call % 64);
        ht_append_bare(&cursor, HT_RAW_FREE, stamp_if_due(), block);
        // The compiler must not see that nobody reads the chunk.
        __asm__ volatile("" ::"r"(chunk) : "memory");
    }
    return clock_counter() - start;
}

void append_cost_measure(struct ht_raw_header *header) {
    header->append_cost_calls = CALLS;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t counts = one_round();
        if (!header->append_cost_counts || counts < header->append_cost_counts)
            header->append_cost_counts = (uint32_t)counts;
    }
}
