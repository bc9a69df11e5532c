// SPDX-License-Identifier: Apache-2.0
// What calls cost along the trace: the timed pass's readings, summed by the stretches after which accounts are taken.
#ifndef HEAPTAPE_STRETCH_COSTS_H
#define HEAPTAPE_STRETCH_COSTS_H

#include "form_builder.h"
#include "replay_job.h"

// Three, where these take long.
enum { HT_STRETCH_ROUNDS = 5, HT_STRETCH_ROUNDS_LEAST = 3 };

// Of each round: the calls that were timed, and their time with the first touch of what they returned; both include
// what reading the clock costs.
struct ht_stretch_costs {
    uint32_t rounds;
    uint64_t calls[HT_STRETCH_ROUNDS][HT_STRETCHES_MAX];
    double ns[HT_STRETCH_ROUNDS][HT_STRETCHES_MAX];
};

// One more round. sample: the last ones of the stretches. readings: built->form->readings of them, as the child left them.
void ht_stretch_costs_add(struct ht_stretch_costs *costs, const struct ht_built_form *built,
                          const uint32_t *sample, uint32_t stretches, const struct ht_reading *readings,
                          const struct ht_outcome *outcome);

#endif
