// SPDX-License-Identifier: Apache-2.0
// What was asked for: filled in from the options of `replay`, and read by all parts of the launcher.
#ifndef HEAPTAPE_REPLAY_PLAN_H
#define HEAPTAPE_REPLAY_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator_choice.h"
#include "huge_pages.h"
#include "replay_job.h"
#include "replay_values.h"

struct ht_plan {
    const char *trace_path, *results_path, *baseline;
    const char *baseline_file, *write_baseline;  // NULL: none
    struct ht_choices choices;
    uint32_t rounds;     // 0: until all is resolved or the budget is spent
    uint64_t budget_ns;  // 0: none
    bool budget_given;   // by the user, and not by default
    uint64_t begun_ns;   // by the monotonic clock: from when on the budget counts
    uint64_t latest_ns;  // of the budget, for the first rounds, of which fewer say little; 0: none
    uint32_t repeats;    // of the trace in each flat run; 0: as many as a measurable length takes
    struct ht_conditions conditions;
    bool instructions;  // count them; alone, in the count pass
    bool profile;       // and the functions that they are in
    uint64_t seed;
    bool layout_fixed;  // addresses and the place of code are not drawn
    bool time_pass, memory_pass, count_pass;
    const char *splice_path;       // accesses to simulate in the count pass; NULL: none
    const char *snapshots_folder;  // NULL: none are taken
    struct ht_snapshot_times snapshot_times;
    uint64_t extend_to_ns;                     // 0: the trace is replayed as it is
    uint64_t extend_from_ns, extend_until_ns;  // the stretch; UINT64_MAX, both: the longest steady one
    bool one_thread;
    uint32_t scale;  // copies of the trace, side by side
    bool limit_pass, memory_max_search;
    uint64_t memory_max_bytes;           // of the process in the limit pass, unless that searches
    double age_occupancy, age_multiple;  // of a heap that has been used; 0: it is fresh
    struct ht_aging aging;               // what that means for the trace, once it is read
    uint32_t processors;                 // that allocators are shown; 0: those that there are
    enum ht_touch touch;
    enum ht_touch_free touch_free;
    struct ht_pollution pollution;  // nothing: the caches are left as the replay leaves them
    bool pollution_by_trace;        // what follows from the trace, once that is read
    uint64_t decoded_memory_bytes;  // 0: as the machine allows
    uint32_t points;                // of the curves in results
    bool purge_at_fork;             // of a group
    uint64_t max_live_bytes;        // 0: as the machine allows, UINT64_MAX: no limit
    uint64_t purge_ns;              // of the memory pass: between purges; 0: none
    uint64_t timeout_ns;            // of one run; 0: none
    const char *wrap;               // NULL: none
    bool verify;
    enum ht_thp thp;
    struct ht_paces paces;
    uint64_t window_ns;  // 0: each pass has its own default
    bool json, quiet, verbose;
};

#endif
