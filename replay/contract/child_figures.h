// SPDX-License-Identifier: Apache-2.0
// Figures beside time and RSS that a measured child leaves in the exchange.
#ifndef HEAPTAPE_CHILD_FIGURES_H
#define HEAPTAPE_CHILD_FIGURES_H

#include <stdint.h>

#include "allocator.h"
#include "snapshot_rows.h"

// Counters of the kernel and the processor over the flat pass (perf_counters.c).
enum ht_perf_event {
    HT_PERF_INSTRUCTIONS,
    HT_PERF_CYCLES,
    HT_PERF_CACHE_MISSES,
    HT_PERF_LLC_MISSES,
    HT_PERF_DTLB_MISSES,
    HT_PERF_BRANCH_MISSES,
    HT_PERF_CONTEXT_SWITCHES,
    HT_PERF_MIGRATIONS,
    HT_PERF_EVENTS
};

struct ht_perf_count {
    uint64_t value;      // HT_FIGURE_UNKNOWN: not permitted, not there, or never on the processor
    uint32_t user_only;  // 1: what the kernel did is not in it
    uint32_t refusal;    // why there is none: errno of perf_event_open, or 0
};

// What the kernel reports of the anonymous memory, less often than RSS is read (memory_probes.c).
struct ht_kernel_view {
    uint64_t sample;  // taken with this sample of RSS
    uint64_t rss_bytes, lazyfree_bytes, anon_huge_bytes, swap_bytes;
};
enum { HT_RESIDENCIES_MAX = 512 };

// Live blocks whose requested size is more than 2^(class-1) and at most 2^class bytes.
enum { HT_SIZE_CLASSES = 65 };
struct ht_size_account {
    uint64_t blocks, requested_bytes, usable_bytes;
};
static inline unsigned ht_size_class(uint64_t bytes) {
    return bytes < 2 ? 0 : 64 - (unsigned)__builtin_clzll(bytes - 1);
}

// The states of the knobs of the allocator's kind, in the order of its table (allocators/allocator.h).
enum { HT_KNOBS_MAX = 40, HT_KNOB_BYTES = 48 };
struct ht_knob_report {
    uint32_t state;  // enum ht_knob_state
    char value[HT_KNOB_BYTES];
};

// What the allocator reports of itself (its kind's statistics, allocators/allocator.h).
enum { HT_REPORT_VALUES_MAX = 8, HT_REPORT_NAME_BYTES = 40, HT_REPORTS_MAX = 512 };
struct ht_report_row {
    uint64_t sample;
    uint64_t live_bytes, usable_bytes;  // requested of what was live then, and usable of it
    uint64_t values[HT_REPORT_VALUES_MAX];
};

struct ht_child_figures {
    // A child that is only described fills this.
    struct ht_knob_report knobs[HT_KNOBS_MAX];

    // The flat pass fills these.
    struct ht_perf_count perf[HT_PERF_EVENTS];
    uint64_t voluntary_switches, involuntary_switches;
    uint64_t repeats;  // how often the trace was replayed: all of these are of all repeats together

    // The memory pass fills these.
    struct ht_kernel_view residency[HT_RESIDENCIES_MAX], residency_end;
    uint32_t residencies;
    uint32_t watched;       // 1: RSS was read within calls, too (peak_watch.h)
    int32_t watch_refusal;  // why not: errno, or 0
    uint32_t purged;        // 1: the allocator has a call that gives memory back, and it was made
    uint64_t rss_after_free_bytes, rss_after_purge_bytes;
    char purge_call[HT_REPORT_NAME_BYTES];
    struct ht_arena_counts arenas;

    // The limit pass fills this at its end: what its control group holds that cannot be reclaimed.
    uint64_t group_bytes;

    // The accounting pass fills these.
    uint32_t knows_usable;  // 1: the allocator has a malloc_usable_size
    uint32_t report_values, reports;
    int32_t filter_refusal;  // errno where system calls could not be counted
    char report_names[HT_REPORT_VALUES_MAX][HT_REPORT_NAME_BYTES];
    struct ht_report_row report[HT_REPORTS_MAX], report_end;
    struct ht_size_account at_peak[HT_SIZE_CLASSES];
    uint64_t peak_live_bytes, peak_usable_bytes;  // where most was live among the samples
    uint64_t untouched_end_bytes;                 // of what is usable: not written to by the replay

    // The snapshot pass fills as many as the job has stretches.
    struct ht_stretch_accounts stretch[HT_STRETCHES_MAX];
};

#endif
