// SPDX-License-Identifier: Apache-2.0
#include "round_time.h"

#include <math.h>
#include <stdio.h>

#include "now.h"
#include "print.h"

double ht_seconds_since(uint64_t ns) { return (double)(ht_now_ns(CLOCK_MONOTONIC) - ns) / 1e9; }

static double warm_up_s(const struct ht_experiment *x) {
    return (double)(x->rounds_begun_ns - x->begun_ns) / 1e9;
}

double ht_round_s(const struct ht_experiment *x, uint32_t done) {
    const struct ht_plan *plan = x->plan;
    if (done) return (double)(x->round_begun_ns - x->rounds_begun_ns) / 1e9 / done;
    double participants = (double)plan->choices.count + 1;
    double passes = (plan->time_pass ? 2 : 0) + (plan->memory_pass ? 1 : 0);
    return warm_up_s(x) * passes * (participants + (plan->choices.count > 1)) / participants;
}

double ht_least_s(const struct ht_experiment *x, uint32_t done) {
    return fmax((double)x->plan->budget_ns / 1e9, warm_up_s(x) + ht_round_s(x, done) * HT_ROUNDS_MIN);
}

void ht_report_if_late(struct ht_experiment *x, uint32_t done) {
    const struct ht_plan *plan = x->plan;
    double budget_s = (double)plan->budget_ns / 1e9, total_s = ht_least_s(x, done);
    if (plan->rounds || plan->quiet || x->warned_late || total_s < 1.1 * budget_s + 1) return;
    ht_progress_end(&x->progress);
    ht_print(
        stderr,
        "heaptape replay: a round takes about %.0f s: the warm-up and the least %d rounds take about %.0f s, more "
        "than the budget of %.0f s\n",
        ht_round_s(x, done), HT_ROUNDS_MIN, total_s, budget_s);
    x->warned_late = true;
}
