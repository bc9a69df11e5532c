// SPDX-License-Identifier: Apache-2.0
// Frees that another thread's free has overtaken.
//
// The processor may read the counter before the load that fetches the block's address has ended: a call's stamp may be too
// early by the time that a contended cache line takes, a microsecond or so. If the address was freed and returned again
// within that time, the early free ends the older block, and the older block's own free, coming later, finds none. That one
// is then kept aside until the address is returned again, and ends that block. To make its thread wait would not do: it may
// be the one that allocates next, and threads that wait for each other fit nothing any more.
//
// So every thread keeps its number of frees, and every block ends; the two threads are exchanged, and a kept free may come
// behind later calls of its thread. A realloc that was overtaken makes a new object, as its old one is gone; when its old
// address is live again, which may be at once, that object ends.
#ifndef HEAPTAPE_OVERTAKEN_FREES_H
#define HEAPTAPE_OVERTAKEN_FREES_H

#include <stdbool.h>
#include <stdint.h>

#include "raw_reader.h"

enum { RECENT_FREES = 256, OVERTAKEN_FREES_MAX = 64 };

struct recent_free {
    uint64_t address, stamp;
    uint32_t thread;
};

struct overtaken_free {
    struct ht_raw_record record;
    uint32_t input;  // whose record it is
};

struct overtaken_frees {
    struct recent_free recent[RECENT_FREES];  // a ring of the last frees of all threads
    uint32_t next_recent;
    struct overtaken_free kept[OVERTAKEN_FREES_MAX];  // oldest first
    uint32_t count;
};

// A thread has freed the block at the address.
static inline void overtaken_frees_note(struct overtaken_frees *frees, uint64_t address, uint64_t stamp,
                                        uint32_t thread) {
    frees->recent[frees->next_recent++ % RECENT_FREES] = (struct recent_free){address, stamp, thread};
}

// Was the last free of the record's address another thread's, no longer than `span_stamps` before?
bool overtaken_frees_likely(const struct overtaken_frees *frees, const struct ht_raw_record *record,
                            uint32_t thread, uint64_t span_stamps);

// Keeps the record of an input aside. False: too many are kept.
bool overtaken_frees_keep(struct overtaken_frees *frees, const struct ht_raw_record *record, uint32_t input);

// The number of the oldest that is kept of the address; `count` if there is none.
uint32_t overtaken_frees_find(const struct overtaken_frees *frees, uint64_t address);

// No longer kept.
struct overtaken_free overtaken_frees_take(struct overtaken_frees *frees, uint32_t number);

#endif
