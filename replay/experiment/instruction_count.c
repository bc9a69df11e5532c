#include "instruction_count.h"

#include <math.h>

#include "count_runs.h"
#include "counted_figure.h"

bool ht_instructions_count(struct ht_experiment *x) {
    static const struct ht_condition instructions = {.counted = &ht_counted[0], .size_bytes = UINT64_MAX};
    struct ht_cost_model model;
    x->failed_counts = ht_count_runs(x, &model);
    for (size_t i = 0; i < x->plan->choices.count; i++) {
        const json_t *counts = json_object_get(x->counts, x->plan->choices.list[i].name);
        x->instructions[i] = ht_counted_figure(counts, &instructions);
    }
    return !ht_child_interrupted();
}
