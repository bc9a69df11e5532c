// SPDX-License-Identifier: Apache-2.0
#include "lane_wait.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dependency_word.h"
#include "processor_number.h"

static bool one_cpu_only(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    // Not what the allocator is shown.
    return syscall(SYS_sched_getaffinity, 0, HT_TRUE_AFFINITY, &allowed) > 0 && CPU_COUNT(&allowed) == 1;
}

// The least of some tries: the others were disturbed.
static double turn_cost_ns(void) {
    enum { TRIES = 20, TURNS = 500 };
    _Atomic uint32_t word = 0;
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
        ht_dependency_spin(&word, 1, TURNS);
        uint64_t ns = ht_raw_clock_ns(CLOCK_MONOTONIC) - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    return (double)least_ns / TURNS;
}

static uint64_t reading_cost_ns(void) {
    enum { TRIES = 100 };
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before_ns = ht_thread_cpu_ns(), ns = ht_thread_cpu_ns() - before_ns;
        if (ns < least_ns) least_ns = ns;
    }
    return least_ns;
}

struct ht_wait_costs ht_wait_costs_measure(void) {
    // Long enough for a thread on another core to finish the op we wait for, short beside a sleep.
    enum { TURNS_MAX = 100 };
    return (struct ht_wait_costs){.turns_max = one_cpu_only() ? 0 : TURNS_MAX,
                                  .turn_ns = turn_cost_ns(),
                                  .reading_ns = reading_cost_ns()};
}
