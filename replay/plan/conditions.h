// SPDX-License-Identifier: Apache-2.0
// Conditions for scripts: --fail-if 'time>1.05' is met where an allocator's ratio to the baseline is shown to
// be above 1.05.
#ifndef HEAPTAPE_CONDITIONS_H
#define HEAPTAPE_CONDITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
