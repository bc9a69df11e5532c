// SPDX-License-Identifier: Apache-2.0
#include "watch_budget.h"

#include "clock.h"

enum {
    COST_SHARE = 32,
    // What is saved up, or owed, in the time that it takes.
    SAVED_US_MAX = 1000,
    OWED_US_MAX = 1000,
    // A block of a size that was not measured for so many times what it takes is measured on credit.
    RARE_SHARE = 1024,
    SKIPS = 15,
    LIKELY_TIMES = 4,
    // Classes of sizes: eight an octave, from the smallest large block on.
    LEAST_BITS = 14,
    OCTAVES = 24,
    CLASSES = OCTAVES * 8,
    // A block of this octave and above needs nothing saved.
    FREE_OCTAVE = 8
};
_Static_assert(1 << LEAST_BITS == HT_LARGE_BLOCK_BYTES, "the first class");
#define STAMPS_PER_US ((uint64_t)STAMPS_PER_S / 1000000)
#define SAVED_STAMPS  (SAVED_US_MAX * STAMPS_PER_US * COST_SHARE)
#define OWED_STAMPS   (OWED_US_MAX * STAMPS_PER_US * COST_SHARE)

struct watch_skips watch_skips;

static struct run_share measuring = {.parts = COST_SHARE, .saved_stamps_max = SAVED_STAMPS};
static _Atomic uint64_t last_measured[CLASSES];

static unsigned octave_of(size_t bytes) {
    unsigned octave = 63u - (unsigned)__builtin_clzll(bytes) - LEAST_BITS;
    return octave < OCTAVES ? octave : OCTAVES - 1;
}

static unsigned class_of(size_t bytes) {
    unsigned octave = octave_of(bytes);
    return octave * 8 + (unsigned)(bytes >> (octave + LEAST_BITS - 3) & 7);
}

// At its birth and its end: a system call for each megabyte, and 8 ns a page.
static uint64_t likely_stamps(size_t bytes) { return (2 + (bytes >> 18)) * STAMPS_PER_US; }

void watch_pass(size_t bytes) {
    watch_skips.below_bytes = bytes + bytes / 2;
    watch_skips.left = SKIPS;
}

bool watch_is_affordable(size_t bytes, uint64_t stamp) {
    _Atomic uint64_t *last = &last_measured[class_of(bytes)];
    unsigned octave = octave_of(bytes);
    uint64_t needed = octave < FREE_OCTAVE ? SAVED_STAMPS / 2 / FREE_OCTAVE * (FREE_OCTAVE - octave) : 0;
    uint64_t paid = share_paid_until(&measuring, stamp);
    bool saved = paid + needed <= stamp,
         rare = stamp >= atomic_load_explicit(last, memory_order_relaxed) + RARE_SHARE * likely_stamps(bytes);
    if (saved || (rare && paid <= stamp + OWED_STAMPS)) {
        atomic_store_explicit(last, stamp, memory_order_relaxed);
        watch_skips.left = 0;
        return true;
    }
    watch_pass(bytes);
    return false;
}

void watch_pay(size_t bytes, uint64_t before_counts) {
    share_pay(&measuring, before_counts, LIKELY_TIMES * likely_stamps(bytes));
}

// Stamps go on in the child: only its skips are its own.
void watch_after_fork(void) { watch_skips.left = 0; }
