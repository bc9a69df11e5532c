// SPDX-License-Identifier: Apache-2.0
// What the parts of the torture are made of: slots of blocks, what is drawn for them, a process that may end. Blocks are made, resized
// and ended by all of malloc's functions that the allocator has, and checked as verification checks those of a trace.
#ifndef HEAPTAPE_TORTURE_PART_H
#define HEAPTAPE_TORTURE_PART_H

#include <stdbool.h>

#include "replay_job.h"
#include "verify_blocks.h"

enum ht_block_end {  // what ends blocks, besides free
    HT_END_SIZED,
    HT_END_ALIGNED_SIZED,
    HT_END_NEW,
    HT_END_NEW_SIZED,
    HT_END_NEW_ARRAY,
    HT_END_NEW_ALIGNED,
    HT_BLOCK_ENDS
};

struct ht_block {
    struct ht_map_node node;
    struct ht_pattern pattern;
    char *at;            // NULL: there is none
    uint64_t bytes;      // that were asked for
    uint64_t alignment;  // likewise, or what every block of the size has
    uint32_t function;   // enum ht_verified_function
    uint32_t maker;      // the id of the thread
    bool mapped;         // it is in the map
};

// What all threads share.
struct ht_torture {
    struct ht_verify_findings *findings;
    void (*make[HT_VERIFIED_FUNCTIONS])(void);  // NULL: the allocator has none
    void (*end[HT_BLOCK_ENDS])(void);
    void (*make_nothrow)(void);  // operator new that returns NULL where it has no memory
    uint64_t (*usable_size)(void *block);
    struct ht_known_alignments known;
    struct ht_verify_map map;  // of the initial thread's blocks
    uint32_t blocks_count, threads;
    struct ht_block *blocks;  // the first is none
    uint64_t most_bytes;      // resident
    int statm_fd;             // -1: resident memory is not watched
    _Atomic bool stopped;     // it takes too much memory
};

// A thread that calls.
struct ht_torturer {
    struct ht_torture *of;
    uint64_t random;
    uint64_t until_ns;  // of the process's CPU time: when the part is cut short
    uint64_t calls, crossing, moved, in_place;
    uint32_t number;  // among those that run at once
    uint32_t id;      // among all that ever ran
    uint32_t part, asked;
    bool alone;      // no other thread calls: its blocks are in the map
    bool all_pages;  // of large blocks are written, not the edges alone
    bool stepped;    // a signal follows each instruction of the allocator's
    bool late;
};

// Finds what the allocator has. own: a function of its library by name, or NULL.
void ht_torture_find(struct ht_torture *torture, void *(*own)(const char *name));

uint64_t ht_torture_draw(struct ht_torturer *t, uint64_t below);
// False once the part has taken its time, or the process too much memory. Asked before each call of a loop.
bool ht_torture_goes_on(struct ht_torturer *t);
uint64_t ht_torture_resident(const struct ht_torture *torture);
uint64_t ht_torture_writable(void);  // bytes that RLIMIT_DATA counts; 0: not known
// Adds up what a thread has counted.
void ht_torture_add(struct ht_torturer *t);

// Tells the first violation of a kind in a part, and counts the others. block: of which its size and function are told.
void ht_torture_tell(struct ht_torturer *t, enum ht_violation_kind kind, const struct ht_block *block,
                     uint64_t expected, uint64_t found);

// Notes what is no violation.
void ht_torture_departs(struct ht_torturer *t, enum ht_departure departure,
                        enum ht_verified_function function);

// False if there is no block: the allocator has no such function, or has failed, which is told where there is memory.
bool ht_block_make(struct ht_torturer *t, struct ht_block *block, enum ht_verified_function function,
                   uint64_t bytes, uint64_t alignment);
bool ht_block_check(struct ht_torturer *t, const struct ht_block *block);
// For blocks that free can end. False if the block is as it was.
bool ht_block_resize(struct ht_torturer *t, struct ht_block *block, uint64_t bytes);
void ht_block_end(struct ht_torturer *t, struct ht_block *block);
// It is the allocator's no more, without a call of ours.
void ht_block_forget(struct ht_torturer *t, struct ht_block *block);

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

// The parts with threads. False: it was not done, or not whole.
bool ht_torture_first_calls(struct ht_torturer *t);
bool ht_torture_duel(struct ht_torturer *t);
bool ht_torture_threads(struct ht_torturer *t);
bool ht_torture_thread_ends(struct ht_torturer *t);

#endif
