// SPDX-License-Identifier: Apache-2.0
#include "cost_table.h"

#include "print.h"

void ht_add_modelled(const struct ht_cost_model *model, json_t *part) {
    struct ht_modelled_time time;
    if (!part) return;
    json_t *made = json_object();
    double total = 0;
    ht_model_time(model, part, &time);
    for (int i = 0; i < HT_COSTS; i++) {
        json_object_set_new(made, ht_cost_kinds[i].key, json_real(time.ns[i]));
        total += time.ns[i];
    }
    json_object_set_new(made, "total", json_real(total));
    json_object_set_new(part, "modelled_ns", made);
}

void ht_cost_table_begin(struct ht_text_table *table) {
    table->alignments = "lrrrrrrr";
    table->rows = 0;
    ht_table_add(table, (const char *const[]){"modelled ms", "all", "instructions", "near misses",
                                              "far misses", "TLB misses", "page faults", "mapping calls"});
}

void ht_cost_table_add(struct ht_text_table *table, const char *name, const json_t *part) {
    const json_t *times = json_object_get(part, "modelled_ns");
#define NS(kind) json_real_value(json_object_get(times, ht_cost_kinds[kind].key))
    double far = 0;
    for (int i = HT_COST_FAR; i <= HT_COST_FAR_LAST; i++) far += NS(i);
    const double ns[] = {json_real_value(json_object_get(times, "total")),
                         NS(HT_COST_INSTRUCTION),
                         NS(HT_COST_L1D) + NS(HT_COST_L1I) + NS(HT_COST_SEQUENTIAL),
                         far,
                         NS(HT_COST_DTLB) + NS(HT_COST_STLB),
                         NS(HT_COST_FAULT),
                         NS(HT_COST_MAPPING)};
#undef NS
    enum { COLUMNS = sizeof ns / sizeof *ns };
    char text[COLUMNS][32];
    const char *cells[COLUMNS + 1] = {name};
    for (size_t i = 0; i < COLUMNS; i++) {
        snprintf(text[i], sizeof text[i], "%.3f", ns[i] / 1e6);
        cells[i + 1] = text[i];
    }
    ht_table_add(table, cells);
}

void ht_cost_table_print(FILE *out, const struct ht_text_table *table, const struct ht_cost_model *model) {
    ht_table_print(out, table);
    if (!model->measured)
        ht_print(out, "by the costs of an %s: heaptape calibrate measures this machine's\n",
                 model->calibration.processor);
}
