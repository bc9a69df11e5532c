// SPDX-License-Identifier: Apache-2.0
// Who runs when, and when it is enough. Knows nothing of processes: an executor runs the turns, so that a
// test can be one.
#ifndef HEAPTAPE_SCHEDULE_H
#define HEAPTAPE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "random_numbers.h"
#include "turn.h"

enum {
    HT_ROUNDS_MIN = 3,      // that always run, whatever the budget
    HT_ROUNDS_INTERIM = 8,  // the first interim analysis: what is resolved?
    HT_ROUNDS_TIMED = 8,    // of an open number of rounds, those with a timed pass: it decides nothing
    HT_SCHEDULE_CPUS = 1024
};

struct ht_schedule {
    uint32_t choices;
    uint32_t rounds;     // 0: until all is resolved
    uint64_t budget_ns;  // 0: none
    bool time_pass, memory_pass;
    bool control;       // the baseline runs a second time in each round
    bool timed_always;  // in every round, also where their number is open
    const int *cpus;    // to pin the time runs of a round to one of; none where cpus_count is 0
    uint32_t cpus_count;
};

struct ht_executor {
    void *context;
    // False: nothing may run after this.
    bool (*turn)(void *context, const struct ht_turn *turn);
    // The interim analysis: whether the figures of the time (memory) pass need more rounds than there have
    // been.
    void (*interim)(void *context, uint32_t rounds, bool *time_open, bool *memory_open);
    uint64_t (*now_ns)(void *context);
};

enum ht_schedule_end {
    HT_END_ROUNDS,  // as many as were asked for
    HT_END_RESOLVED,
    HT_END_BUDGET,
    HT_END_EARLY  // the executor wanted it
};

// A warm-up, in which each allocator runs once and nothing counts, then the rounds. In a round the passes
// come one after the other, so that the runs to be compared are close in time; in each pass the null replayer
// is first, because its figures are taken off the others', and then the others in random order.
enum ht_schedule_end ht_schedule_run(const struct ht_schedule *schedule, struct ht_random *random,
                                     const struct ht_executor *executor, uint32_t *rounds_done);

#endif
