// SPDX-License-Identifier: Apache-2.0
// The values of options of `replay`, and the texts that they have.
#ifndef HEAPTAPE_REPLAY_VALUES_H
#define HEAPTAPE_REPLAY_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay_job.h"

// --pace: which time the allocator sees, and whether the replay waits for recorded times.
struct ht_pace {
    char name[32];  // as in results
    bool virtual_time;
    double real_ns_per_trace_ns;  // 0: no waiting
};

struct ht_paces {
    struct ht_pace time, memory;
};

#define HT_PACES_VIRTUAL                                                                                     \
    (struct ht_paces) { {"virtual", true, 0}, {"virtual", true, 0} }

// PACE for both passes, or time=PACE or memory=PACE or both with a comma between. False if it is none of
// these.
bool ht_paces_parse(const char *text, struct ht_paces *paces);

// When snapshots of the heap are taken: the value of --at.
enum { HT_SNAPSHOT_JUMPS = 3, HT_SNAPSHOT_TIMES_MAX = 8 };

struct ht_snapshot_times {
    bool peak, end;
    bool jumps;  // the HT_SNAPSHOT_JUMPS largest rises of RSS less live bytes
    uint64_t at_ns[HT_SNAPSHOT_TIMES_MAX];
    uint32_t count;
};

// "peak,end,jumps,90s": replaces what was there. False if it is none of that, or too many.
bool ht_snapshot_times_parse(const char *text, struct ht_snapshot_times *times);

// --pollute: how much of what, by the processor's caches or by the trace.

// "64M", "trace", "all", "data=64k,code=32k,tlb=128". by_trace: the amounts follow from the trace. NULL, or what was
// expected.
const char *ht_pollution_parse(const char *text, struct ht_pollution *pollution, bool *by_trace);

// As much as a program leaves that runs for so long between two calls, and no more than "all".
struct ht_pollution ht_pollution_of_gap(double gap_ns);

// Conditions for scripts: --fail-if 'time>1.05' is met where an allocator's ratio to the baseline is shown to
// be above 1.05.
enum { HT_CONDITIONS_MAX = 32 };

// Figures of rounds, less being better.
enum ht_figure {
    HT_FIGURE_TIME,
    HT_FIGURE_PEAK,
    HT_FIGURE_MEAN,
    HT_FIGURE_END,
    HT_FIGURE_PROCESS,
    HT_FIGURES
};
extern const char *const ht_figure_names[HT_FIGURES];  // of --fail-if

// A count of the simulation, which is exact: it has no rounds.
struct ht_counted {
    const char *name;       // of --fail-if, and the key in JSON
    bool of_calls;          // in calls of the allocator alone; else also of what the program touches
    bool takes_simulation;  // of caches and page faults: --pass count without --instructions
};

enum { HT_COUNTED = 9 };
extern const struct ht_counted ht_counted[HT_COUNTED];

struct ht_condition {
    char text[64];                     // as given
    int figure;                        // enum ht_figure; HT_FIGURES: counted
    const struct ht_counted *counted;  // NULL: measured in rounds
    char function[24];                 // of instructions[FUNCTION:SIZE]; empty: all
    uint64_t size_bytes;               // UINT64_MAX: all
    bool above;                        // > or >=; else < or <=
    bool inclusive;
    double limit;
};

struct ht_conditions {
    struct ht_condition list[HT_CONDITIONS_MAX];
    size_t count;
};

// Adds FIGURE OPERATOR NUMBER. Returns what is wrong with it, or NULL.
const char *ht_fail_if_add(struct ht_conditions *conditions, const char *text);

// As options and results have them.
extern const char *const ht_touch_names[HT_TOUCHES];
extern const char *const ht_touch_free_names[HT_TOUCH_FREES];

#endif
