// SPDX-License-Identifier: Apache-2.0
// What the parts of the torture are made of: slots of blocks, what is drawn for them, a process that may end.
#ifndef HEAPTAPE_TORTURE_PART_H
#define HEAPTAPE_TORTURE_PART_H

#include "torture_blocks.h"

enum {
    HT_RESIDENTS = 2000,  // blocks that live from the first part to the last
    HT_WORK = 72000,      // blocks of a part: more than 16 bits can number
    HT_DEPTH_MAX = 400
};

// The slots of some blocks.
struct ht_slots {
    uint32_t first, count;
};
static const struct ht_slots ht_residents = {1, HT_RESIDENTS}, ht_work = {1 + HT_RESIDENTS, HT_WORK};

static inline struct ht_slots ht_slots_some(uint32_t count) {
    return (struct ht_slots){ht_work.first, count};
}

// A block in a place that is drawn, where the one that lay there ends.
struct ht_block *ht_slots_put(struct ht_torturer *t, struct ht_slots slots,
                              enum ht_verified_function function, uint64_t bytes, uint64_t alignment);
// From the first to the last, or backwards.
void ht_slots_end(struct ht_torturer *t, struct ht_slots slots);
void ht_slots_check(struct ht_torturer *t, struct ht_slots slots);

// One of the functions that take no alignment, or of all.
enum ht_verified_function ht_any_function(struct ht_torturer *t, bool aligned);
// About as many between 2^i and 2^(i+1) for each i.
uint64_t ht_any_size(struct ht_torturer *t, unsigned bits);
uint64_t ht_any_alignment(struct ht_torturer *t);

// Who is given a block writes into it, and looks later whether somebody else has: nothing else is done between the calls, so
// that they meet often. depth: blocks at once, at most HT_DEPTH_MAX.
void ht_torture_contend(struct ht_torturer *t, uint64_t bytes, unsigned depth, unsigned times);
// Memory that grows though as much is freed. Large blocks are kept for a while by some allocators.
void ht_torture_tell_growth(struct ht_torturer *t, enum ht_verified_function function, uint64_t bytes,
                            uint64_t before, uint64_t freed);

// A part that takes longer than it has is cut short.
void ht_torture_start_clock(struct ht_torturer *t);
// What may end the process, or needs a fresh one, is done in a child. False: there was none, or body says so.
bool ht_torture_in_child(struct ht_torturer *t, bool (*body)(struct ht_torturer *t));

// The parts. False: it was not done, or not whole.
bool ht_torture_first_calls(struct ht_torturer *t);
bool ht_torture_sizes(struct ht_torturer *t);
bool ht_torture_alignments(struct ht_torturer *t);
bool ht_torture_realloc(struct ht_torturer *t);
bool ht_torture_refusals(struct ht_torturer *t);
bool ht_torture_reuse(struct ht_torturer *t);
bool ht_torture_duel(struct ht_torturer *t);
bool ht_torture_threads(struct ht_torturer *t);
bool ht_torture_thread_ends(struct ht_torturer *t);
bool ht_torture_no_memory(struct ht_torturer *t);

#endif
