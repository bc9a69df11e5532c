// SPDX-License-Identifier: Apache-2.0
// Readings of the memory of the process and of its control group, and when one is taken that can cost a lot.
#ifndef HEAPTAPE_MEMORY_PROBES_H
#define HEAPTAPE_MEMORY_PROBES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "child_figures.h"
#include "raw_calls.h"

int ht_rss_open(void);  // /proc/self/statm; -1 if it cannot be had
// resident less shared, which is RssAnon; 0 if it cannot be read.
uint64_t ht_rss_anon_bytes(int statm_fd);

// When to take a reading that can cost a lot: never so often that readings take more than a twentieth of the
// run and a little more, and by one thread at a time.
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

// What of the process's anonymous memory the kernel could take back at once, holds in huge pages, or has
// swapped out.
struct ht_residency_probe {
    struct ht_bounded_probe probe;
    int smaps_fd;
    struct ht_child_figures *figures;
};

int ht_residency_open(void);  // /proc/self/smaps_rollup; -1 if it cannot be had
// All but sample and rss_bytes; each HT_FIGURE_UNKNOWN if it cannot be read.
void ht_residency_read(int smaps_fd, struct ht_kernel_view *residency);

// Called at each sample of RSS: takes a reading if one is due, which costs from 30 us to 16 ms for 1 GiB.
void ht_residency_sample(struct ht_residency_probe *probe, uint64_t sample, uint64_t rss_bytes);

// Anonymous and shared memory, which the kernel cannot reclaim without swap; HT_FIGURE_UNKNOWN if the file does not say.
uint64_t ht_group_held_bytes(int stat_fd);

#endif
