// SPDX-License-Identifier: Apache-2.0
// Nanoseconds of CPU time from simulated counts.
//
// `heaptape calibrate` measures two figures of each kind of event on the machine at hand: its latency, alone, each one waiting for
// the one before; and its cost, among calls of malloc, where the processor does other work meanwhile.
#ifndef HEAPTAPE_COST_MODEL_H
#define HEAPTAPE_COST_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "processor.h"
#include "text_table.h"

enum ht_cost {
    HT_COST_INSTRUCTION,
    HT_COST_L1D,         // a line of data from the second-level cache
    HT_COST_L1I,         // a line of code from there
    HT_COST_SEQUENTIAL,  // a line from beyond it, near one of the last misses
    HT_COST_FAR,  // a line from beyond it, elsewhere, that a cache of 4 MiB has; then those of enum ht_far
    HT_COST_FAR_LAST = HT_COST_FAR + HT_FARS,  // and one that none of those has
    HT_COST_DTLB,                              // a page that the first TLB misses
    HT_COST_STLB,                              // and the second too: on top of that
    HT_COST_FAULT,                             // a fresh page of memory, and its return
    HT_COST_MAPPING,                           // a call of the allocator that changes mappings
    HT_COSTS
};

// A median of rounds, and its 96 % interval.
struct ht_median {
    double ns, low_ns, high_ns;
};

struct ht_calibration {
    char processor[128];
    double cycle_ns;
    struct ht_median latency[HT_COSTS], cost[HT_COSTS];
};

struct ht_cost_model {
    bool measured;  // on this processor; otherwise on the one that default_calibration names
    struct ht_calibration calibration;
};

struct ht_cost_kind {
    const char *key, *name;
};
// Of the latency of a line of code: no kernel of ours has enough code to show it.
#define HT_CODE_MISS_SHARE 0.4
// The 90th percentile of how far the model is off in the time of a trace's calls (docs/method/method.md).
#define HT_MODEL_RESIDUAL 0.20
// Of Student's distribution, 90 %, as many groups of bursts as there are of a sampled recording.
#define HT_SAMPLING_QUANTILE 1.75

extern const struct ht_cost_kind ht_cost_kinds[HT_COSTS];

// Where the calibration is kept: $XDG_CACHE_HOME/heaptape/calibration.json, or below ~/.cache; to be freed. NULL: nowhere.
char *ht_calibration_path(void);
// What part of its latency an event costs among calls.
double ht_cost_share(const struct ht_calibration *calibration, int kind);
json_t *ht_calibration_json(const struct ht_calibration *calibration);
// From the file of ht_calibration_path(), if this processor wrote it, otherwise the default.
void ht_cost_model_read(struct ht_cost_model *model);

// What a part of a process's counts (simulation.h) takes, in ns, by kind. Without simulated caches: instructions
// alone.
struct ht_modelled_time {
    double ns[HT_COSTS];
};
void ht_model_time(const struct ht_cost_model *model, const json_t *part, struct ht_modelled_time *time);

// Modelled times of counts, as JSON and as a table.

// Gives a part of a process's counts, if there is one, its "modelled_ns", by kind and in all.
void ht_add_modelled(const struct ht_cost_model *model, json_t *part);

// A table in ms, of parts that have got theirs, from an empty one: heading, then a row for each part.
void ht_cost_table_begin(struct ht_text_table *table);
void ht_cost_table_add(struct ht_text_table *table, const char *name, const json_t *part);
// Prints it, and which machine's costs it has.
void ht_cost_table_print(FILE *out, const struct ht_text_table *table, const struct ht_cost_model *model);

#endif
