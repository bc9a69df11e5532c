// SPDX-License-Identifier: Apache-2.0
#include "stretch_costs.h"

void ht_stretch_costs_add(struct ht_stretch_costs *costs, const struct ht_built_form *built,
                          const uint32_t *sample, uint32_t stretches, const struct ht_reading *readings,
                          const struct ht_outcome *outcome) {
    double ns_per_tick = outcome->ticks ? (double)outcome->ticks_ns / (double)outcome->ticks : 0;
    uint64_t reading = 0;
    uint32_t round = costs->rounds++;
    for (uint32_t i = 0; i < stretches; i++) {
        uint64_t until = built->points[sample[i]].readings, ticks = 0, calls = 0;
        for (; reading < until; reading++) {
            if (readings[reading].call_ticks == HT_READING_DROPPED) continue;
            ticks += (uint64_t)readings[reading].call_ticks + readings[reading].touch_ticks;
            calls++;
        }
        costs->calls[round][i] = calls;
        costs->ns[round][i] = (double)ticks * ns_per_tick;
    }
}
