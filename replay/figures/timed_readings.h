// SPDX-License-Identifier: Apache-2.0
// What the timed pass of one child showed, summed by function.
#ifndef HEAPTAPE_TIMED_READINGS_H
#define HEAPTAPE_TIMED_READINGS_H

#include "form_builder.h"
#include "replay_job.h"

struct ht_timed_function {
    uint64_t count, call_ticks, touch_ticks;  // of the readings that count; each includes a clock reading
};

struct ht_timed_readings {
    struct ht_timed_function functions[HT_FUNCTIONS];
    uint64_t taken, dropped;  // dropped: the thread was switched out meanwhile
    uint64_t clock_cost_ticks;
    double ns_per_tick;  // NaN where nothing ran
};

// readings: built->form->readings of them, as the child left them.
void ht_timed_readings_sum(const struct ht_built_form *built, const struct ht_reading *readings,
                           const struct ht_outcome *outcome, struct ht_timed_readings *sum);

// Mean time in ns of one call of a function, or of the first touch of what it returned, the clock's own cost
// off. NaN where none was timed.
double ht_timed_mean_ns(const struct ht_timed_readings *sum, int function, bool touch);

#endif
