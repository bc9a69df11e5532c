// SPDX-License-Identifier: Apache-2.0
// When to take a reading that can cost a lot: never so often that readings take more than a twentieth of the
// run and a little more, and by one thread at a time.
#ifndef HEAPTAPE_BOUNDED_PROBE_H
#define HEAPTAPE_BOUNDED_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "raw_clock.h"

enum { HT_PROBE_SHARE = 20, HT_PROBE_GRANT_NS = 10000000 };  // a short run may spend the grant

struct ht_bounded_probe {
    atomic_flag taken;  // a reading is being taken
    uint64_t begun_ns, spent_ns, started_ns;
    uint64_t next_sample, sample_step;  // readings are due at these samples of RSS at the earliest,
    uint64_t highest;                   // or when something is this much and an eighth more
    uint32_t count, room;
};

static inline void ht_probe_init(struct ht_bounded_probe *probe, uint64_t samples, uint32_t room) {
    *probe = (struct ht_bounded_probe){
        .taken = ATOMIC_FLAG_INIT, .begun_ns = ht_raw_clock_ns(CLOCK_MONOTONIC), .room = room};
    probe->sample_step = samples / (room / 2) + 1;
}

// True: a reading is to be taken now, and ht_probe_done to be called after it.
static inline bool ht_probe_due(struct ht_bounded_probe *probe, uint64_t sample, uint64_t level) {
    if (atomic_flag_test_and_set(&probe->taken)) return false;
    bool wanted = sample >= probe->next_sample || level > probe->highest + probe->highest / 8;
    if (wanted && probe->count < probe->room) {
        probe->started_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
        uint64_t granted_ns = HT_PROBE_GRANT_NS + (probe->started_ns - probe->begun_ns) / HT_PROBE_SHARE;
        if (probe->spent_ns <= granted_ns) {
            probe->next_sample = sample + probe->sample_step;
            if (level > probe->highest) probe->highest = level;
            return true;
        }
    }
    atomic_flag_clear(&probe->taken);
    return false;
}

static inline void ht_probe_done(struct ht_bounded_probe *probe) {
    probe->spent_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - probe->started_ns;
    probe->count++;
    atomic_flag_clear(&probe->taken);
}

#endif
