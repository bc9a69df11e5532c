// SPDX-License-Identifier: Apache-2.0
#include "counter_figures.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "older_libc.h"

const char *const ht_perf_names[HT_PERF_EVENTS] = {"instructions",     "cycles",           "cache_misses",
                                                   "llc_load_misses",  "dtlb_load_misses", "branch_misses",
                                                   "context_switches", "cpu_migrations"};

const char *ht_perf_refusal_text(uint32_t refusal) {
    switch (refusal) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP: return "this processor or virtual machine lacks some of them";
    case EACCES:
    case EPERM: return "not permitted (kernel.perf_event_paranoid, or a sandbox)";
    default: return strerrordesc_np((int)refusal);
    }
}

// Of one repeat.
static double once(uint64_t value, const struct ht_child_figures *child) {
    return value == HT_FIGURE_UNKNOWN ? NAN : (double)value / (double)child->repeats;
}

void ht_counter_figures(const struct ht_child_figures *child, const struct ht_child_figures *null,
                        struct ht_counter_figures *figures) {
    *figures = (struct ht_counter_figures){
        .voluntary_switches = once(child->voluntary_switches, child),
        .involuntary_switches = once(child->involuntary_switches, child),
    };
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        figures->perf[i] = once(child->perf[i].value, child);
        if (i >= HT_PERF_CONTEXT_SWITCHES) continue;
        if (null) figures->perf[i] -= once(null->perf[i].value, null);
        if (child->perf[i].user_only) figures->user_only = true;
        if (!figures->refusal) figures->refusal = child->perf[i].refusal;
    }
}
