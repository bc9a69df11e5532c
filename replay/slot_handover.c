#include "slot_handover.h"

#include "raw_clock.h"

// Long enough for a thread on another core to finish the op we wait for, short beside a sleep.
enum { SPINS_MAX = 100 };

static bool spin(_Atomic uint32_t *word, uint32_t handover) {
    for (int i = 0; i < SPINS_MAX; i++) {
        if (ht_handover_is(atomic_load_explicit(word, memory_order_acquire), handover)) return true;
        ht_cpu_relax();
    }
    return false;
}

void ht_handover_wait_slowly(struct ht_lane *lane, _Atomic uint32_t *word, uint32_t handover) {
    uint64_t cpu_before_ns = ht_thread_cpu_ns(), before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    if (!spin(word, handover)) {
        uint32_t seen = atomic_load_explicit(word, memory_order_acquire);
        while (!ht_handover_is(seen, handover)) {
            // The publisher replaces the whole word and wakes all; whoever finds another's number sleeps
            // again.
            if ((seen & 1) || atomic_compare_exchange_strong(word, &seen, seen | 1)) {
                ht_futex_wait(word, seen | 1);
            }
            seen = atomic_load_explicit(word, memory_order_acquire);
        }
    }
    lane->wait_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
    lane->wait_cpu_ns += ht_thread_cpu_ns() - cpu_before_ns;
}
