// SPDX-License-Identifier: Apache-2.0
// How long the rounds of an experiment take, as far as those show that have been.
#ifndef HEAPTAPE_ROUND_TIME_H
#define HEAPTAPE_ROUND_TIME_H

#include "experiment_state.h"

// Of a moment of CLOCK_MONOTONIC.
double ht_seconds_since(uint64_t ns);

// How long a round takes, in seconds, after done whole rounds: as those did, or, of the first, by the
// warm-up, in which each allocator but the control ran once and in one pass.
double ht_round_s(const struct ht_experiment *experiment, uint32_t done);

// When an open number of rounds will have ended at the latest, in seconds from the warm-up's begin: the
// budget, or as long as the rounds take that run whatever the budget.
double ht_least_s(const struct ht_experiment *experiment, uint32_t done);

// A user who set a budget, or relies on the default, should learn as soon as it is known that it will not do:
// after the warm-up, or after the first round, which may be slower, as under --wrap. Reports that once.
void ht_report_if_late(struct ht_experiment *experiment, uint32_t done);

#endif
