// SPDX-License-Identifier: Apache-2.0
// How warm a block is when it is freed: by the time that one load takes. Fences keep what the program
// asked of the memory before out of it.
#include "freed_probe.h"

#include "memory_sample.h"
#include "real.h"
#include "settings.h"

enum { STEP_COUNTS = 8, FLOOR_TRIES = 64 };

#if defined(__x86_64__)
static uint32_t load_counts(const void *at) {
    clock_counter();  // the first reading after many calls without one takes longer
    __asm__ volatile("lfence" ::: "memory");
    uint64_t before = clock_counter();
    __asm__ volatile("lfence" ::: "memory");
    (void)*(const volatile char *)at;
    __asm__ volatile("lfence" ::: "memory");
    uint64_t counts = clock_counter() - before;
    return counts < UINT32_MAX ? (uint32_t)counts : UINT32_MAX;
}

void freed_probe_measure_floor(struct ht_raw_header *header) {
    char warm = 0;
    if (real.forbids_pages) return;
    header->freed_probe_step_counts = STEP_COUNTS;
    for (unsigned i = 0; i < FLOOR_TRIES; i++) {
        uint32_t counts = load_counts(&warm);
        if (!header->freed_probe_floor_counts || counts < header->freed_probe_floor_counts)
            header->freed_probe_floor_counts = counts;
    }
}

// Times a load of the block's first byte and counts it in the header. Does nothing where the cycle
// counter is too coarse, and for blocks that begin a page: programs forbid themselves access to those.
static void freed_probe(struct ht_raw_header *header, const void *block) {
    if (!header->freed_probe_step_counts || !((uintptr_t)block % settings.page_bytes)) return;
    uint32_t counts = load_counts(block), floor = header->freed_probe_floor_counts;
    uint32_t bucket = counts > floor ? (counts - floor) / STEP_COUNTS : 0;
    if (bucket >= HT_RAW_FREED_PROBES) bucket = HT_RAW_FREED_PROBES - 1;
    __atomic_fetch_add(&header->freed_probes[bucket], 1, __ATOMIC_RELAXED);
}
#else
void freed_probe_measure_floor(struct ht_raw_header *header) { (void)header; }
static void freed_probe(struct ht_raw_header *header, const void *block) {
    (void)header;
    (void)block;
}
#endif

bool room_for_free_slowly(struct thread_state *t, const void *block) {
    if (!chunk_has_room(t)) return chunk_next(t);
    if (t->cursor.at < t->full_or_probe_at) return true;
    freed_probe(t->recording->header, block);
    chunk_set_full_or_probe(t);
    // While a program only frees, this is when its memory is sampled.
    if (t->cursor.last_stamp < t->sample_due_stamp) return true;
    memory_sample(t, stamp_now(), false);
    return room_for_record(t);
}
