// SPDX-License-Identifier: Apache-2.0
#include "instruction_count.h"

#include <math.h>

#include "count_runs.h"
#include "counted_figure.h"

bool ht_instructions_count(struct ht_experiment *x) {
    struct ht_cost_model model;
    for (size_t i = 0; i < HT_CHOICES_MAX; i++) x->instructions[i] = NAN;
    if (!x->plan->instructions) return true;
    x->failed_counts = ht_count_runs(x, &model);
    for (size_t i = 0; i < x->plan->choices.count; i++) {
        x->instructions[i] =
            ht_counted_instructions(json_object_get(x->counts, x->plan->choices.list[i].name));
    }
    return !ht_child_interrupted();
}
