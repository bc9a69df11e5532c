// SPDX-License-Identifier: Apache-2.0
#include "timed_readings.h"

#include <math.h>

void ht_timed_readings_sum(const struct ht_built_form *built, const struct ht_reading *readings,
                           const struct ht_outcome *outcome, struct ht_timed_readings *sum) {
    *sum = (struct ht_timed_readings){
        .clock_cost_ticks = outcome->clock_cost_ticks,
        .ns_per_tick = outcome->ticks ? (double)outcome->ticks_ns / (double)outcome->ticks : NAN};
    for (uint32_t i = 0; i < built->form->readings; i++) {
        if (readings[i].call_ticks == HT_READING_DROPPED) {
            sum->dropped++;
            continue;
        }
        struct ht_timed_function *function = &sum->functions[built->reading_points[i].function];
        function->count++;
        function->call_ticks += readings[i].call_ticks;
        function->touch_ticks += readings[i].touch_ticks;
        sum->taken++;
    }
}

double ht_timed_mean_ns(const struct ht_timed_readings *sum, int function, bool touch) {
    const struct ht_timed_function *of = &sum->functions[function];
    if (!of->count) return NAN;
    uint64_t ticks = touch ? of->touch_ticks : of->call_ticks;
    return ((double)ticks / (double)of->count - (double)sum->clock_cost_ticks) * sum->ns_per_tick;
}
