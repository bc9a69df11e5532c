// SPDX-License-Identifier: Apache-2.0
// Order between threads, slot by slot: an op waits only for the op on the same slot that precedes it in the
// trace, and only where another thread did that one. The launcher numbers these dependencies per slot;
// the thread of the earlier op publishes the number, the one of the later op waits for it. Several threads
// may wait for the same slot, each for a number of its own; the numbers are published in order, and the next
// one only by a thread that has found its own, so nobody's number is passed by.
#ifndef HEAPTAPE_SLOT_DEPENDENCY_H
#define HEAPTAPE_SLOT_DEPENDENCY_H

#include "dependency_word.h"
#include "replay_lane.h"

void ht_dependency_wait_slowly(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency);
void ht_dependency_wake(struct ht_lane *lane, _Atomic uint32_t *word);

static inline void ht_dependency_wait(struct ht_lane *lane, uint32_t slot, uint32_t dependency) {
    _Atomic uint32_t *word = &lane->dependencies[slot];
    if (__builtin_expect(!ht_dependency_is(atomic_load_explicit(word, memory_order_acquire), dependency),
                         0)) {
        ht_dependency_wait_slowly(lane, word, dependency);
    }
}

static inline void ht_dependency_publish(struct ht_lane *lane, uint32_t slot, uint32_t dependency) {
    _Atomic uint32_t *word = &lane->dependencies[slot];
    uint32_t before = atomic_exchange_explicit(word, dependency << 1, memory_order_acq_rel);
    if (__builtin_expect(before & 1, 0)) ht_dependency_wake(lane, word);
}

// order: a dependency's number << 1 | whether to publish it.
static inline void ht_dependency(struct ht_lane *lane, uint32_t slot, uint32_t order) {
    if (order & 1) ht_dependency_publish(lane, slot, order >> 1);
    else ht_dependency_wait(lane, slot, order >> 1);
}

#endif
