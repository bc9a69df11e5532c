// SPDX-License-Identifier: Apache-2.0
#include "slot_dependency.h"

#include "lane_turns.h"
#include "lane_wait.h"

static void sleep_until(_Atomic uint32_t *word, uint32_t dependency) {
    uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
    while (!ht_dependency_is(seen, dependency)) {
        // The publisher replaces the whole word and wakes all; a thread that finds another's number sleeps
        // again.
        if ((seen & 1) || atomic_compare_exchange_strong(word, &seen, seen | 1)) {
            ht_futex_wait(word, seen | 1);
        }
        seen = atomic_load_explicit(word, memory_order_acquire);
    }
}

void ht_dependency_wait_slowly(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t dependency) {
    if (lane->window->by_turns) {
        ht_turn_pass_until(lane, word, dependency);
        return;
    }
    uint32_t turns_max = lane->window->costs.turns_max;
    uint32_t turns = ht_dependency_spin(word, dependency, turns_max);
    lane->turns += turns;
    if (turns < turns_max) return;
    uint64_t begin_ns = ht_uncounted_begin(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    sleep_until(word, dependency);
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    ht_uncounted_end(lane, begin_ns);
}

void ht_dependency_wake(struct ht_lane *lane, _Atomic uint32_t *word) {
    uint64_t begin_ns = ht_uncounted_begin();
    ht_futex_wake(word);
    ht_uncounted_end(lane, begin_ns);
}
