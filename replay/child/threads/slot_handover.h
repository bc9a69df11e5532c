// Order between threads, slot by slot: an op waits only for the op on the same slot that precedes it in the
// trace, and only where another thread did that one. The launcher numbers these handovers per slot; the
// thread that hands over publishes the number, the one that takes over waits for it. Several threads may wait
// for the same slot, each for a number of its own; the numbers are published in order, and the next one only
// by a thread that has found its own, so nobody's number is passed by.
#ifndef HEAPTAPE_SLOT_HANDOVER_H
#define HEAPTAPE_SLOT_HANDOVER_H

#include "handover_word.h"
#include "replay_lane.h"

void ht_handover_wait_slowly(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t handover);
void ht_handover_wake(struct ht_lane *lane, _Atomic uint32_t *word);

static inline void ht_handover_wait(struct ht_lane *lane, uint32_t slot, uint32_t handover) {
    _Atomic uint32_t *word = &lane->handovers[slot];
    if (__builtin_expect(!ht_handover_is(atomic_load_explicit(word, memory_order_acquire), handover), 0)) {
        ht_handover_wait_slowly(lane, word, handover);
    }
}

static inline void ht_handover_publish(struct ht_lane *lane, uint32_t slot, uint32_t handover) {
    _Atomic uint32_t *word = &lane->handovers[slot];
    uint32_t before = atomic_exchange_explicit(word, handover << 1, memory_order_acq_rel);
    if (__builtin_expect(before & 1, 0)) ht_handover_wake(lane, word);
}

// order: a handover's number << 1 | whether to publish it.
static inline void ht_handover(struct ht_lane *lane, uint32_t slot, uint32_t order) {
    if (order & 1) ht_handover_publish(lane, slot, order >> 1);
    else ht_handover_wait(lane, slot, order >> 1);
}

#endif
