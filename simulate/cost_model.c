// SPDX-License-Identifier: Apache-2.0
#include "cost_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine_facts.h"
#include "print.h"

enum { SCHEMA = 2 };  // 1 had one cost for all far misses, and shares that were the same on all machines

const struct ht_cost_kind ht_cost_kinds[HT_COSTS] = {
    [HT_COST_INSTRUCTION] = {"instruction", "instruction"},
    [HT_COST_L1D] = {"l1d_miss", "L1D miss"},
    [HT_COST_L1I] = {"l1i_miss", "L1I miss"},
    [HT_COST_SEQUENTIAL] = {"l2_sequential_miss", "L2 miss, sequential"},
    [HT_COST_FAR] = {"l2_miss", "L2 miss"},
    [HT_COST_FAR + 1] = {"far_4mib_miss", "the same, beyond 4 MiB"},
    [HT_COST_FAR + 2] = {"far_8mib_miss", "beyond 8 MiB"},
    [HT_COST_FAR + 3] = {"far_16mib_miss", "beyond 16 MiB"},
    [HT_COST_FAR_LAST] = {"far_32mib_miss", "beyond 32 MiB"},
    [HT_COST_DTLB] = {"dtlb_miss", "TLB miss"},
    [HT_COST_STLB] = {"stlb_miss", "second TLB miss"},
    [HT_COST_FAULT] = {"fault", "page fault"},
    [HT_COST_MAPPING] = {"mapping_call", "mapping call"},
};

// Of a virtual machine with 1 MiB of second-level cache, some 6 MiB of the third, and busy neighbours.
static const struct ht_calibration default_calibration = {
    .processor = "AMD EPYC (Zen 4)",
    .cycle_ns = 0.276,
    .latency = {[HT_COST_INSTRUCTION] = {0.0804, 0.0802, 0.0843},
                [HT_COST_L1D] = {2.72, 2.72, 2.79},
                [HT_COST_L1I] = {2.72, 2.72, 2.79},
                [HT_COST_SEQUENTIAL] = {0.52, 0.431, 0.774},
                [HT_COST_FAR] = {17, 14, 42.5},
                [HT_COST_FAR + 1] = {32.7, 24.2, 91.3},
                [HT_COST_FAR + 2] = {114, 51.1, 148},
                [HT_COST_FAR + 3] = {143, 124, 156},
                [HT_COST_FAR_LAST] = {157, 152, 163},
                [HT_COST_DTLB] = {1.9, 1.89, 1.91},
                [HT_COST_STLB] = {47.3, 18.6, 65.8},
                [HT_COST_FAULT] = {1420, 1400, 1620},
                [HT_COST_MAPPING] = {2580, 2530, 2840}},
    .cost = {[HT_COST_INSTRUCTION] = {0.0804, 0.0802, 0.0843},
             [HT_COST_L1D] = {0.0586, 0, 0.0708},
             [HT_COST_L1I] = {1.09, 1.09, 1.11},
             [HT_COST_SEQUENTIAL] = {0.531, 0, 1.46},
             [HT_COST_FAR] = {5.78, 1.95, 46},
             [HT_COST_FAR + 1] = {23.1, 10.5, 58.4},
             [HT_COST_FAR + 2] = {33, 24.5, 64.5},
             [HT_COST_FAR + 3] = {55.5, 49.3, 70.4},
             [HT_COST_FAR_LAST] = {70.5, 68.8, 74.6},
             [HT_COST_DTLB] = {0.022, 0, 0.0977},
             [HT_COST_STLB] = {11.6, 6.24, 14.3},
             [HT_COST_FAULT] = {1850, 1630, 2220},
             [HT_COST_MAPPING] = {2580, 2530, 2840}}};

char *ht_calibration_path(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int made = -1;
    if (cache && *cache == '/') made = asprintf(&path, "%s/heaptape/calibration.json", cache);
    else if (home && *home) made = asprintf(&path, "%s/.cache/heaptape/calibration.json", home);
    return made < 0 ? NULL : path;
}

double ht_cost_share(const struct ht_calibration *calibration, int kind) {
    const double latency_ns = calibration->latency[kind].ns;
    return latency_ns > 0 ? calibration->cost[kind].ns / latency_ns : 1;
}

json_t *ht_calibration_json(const struct ht_calibration *calibration) {
    json_t *costs = json_object();
    for (int i = 0; i < HT_COSTS; i++) {
        const struct ht_median *latency = &calibration->latency[i], *cost = &calibration->cost[i];
        json_object_set_new(costs, ht_cost_kinds[i].key,
                            json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "latency_ns", latency->ns,
                                      "low_ns", latency->low_ns, "high_ns", latency->high_ns, "share",
                                      ht_cost_share(calibration, i), "cost_ns", cost->ns, "cost_low_ns",
                                      cost->low_ns, "cost_high_ns", cost->high_ns));
    }
    return json_pack("{s:i, s:s, s:f, s:o}", "schema", SCHEMA, "processor", calibration->processor,
                     "cycle_ns", calibration->cycle_ns, "costs", costs);
}

static bool read_json(const json_t *json, struct ht_calibration *calibration) {
    const char *processor;
    json_t *costs;
    int schema;
    if (json_unpack((json_t *)json, "{s:i, s:s, s:F, s:o}", "schema", &schema, "processor", &processor,
                    "cycle_ns", &calibration->cycle_ns, "costs", &costs) ||
        schema != SCHEMA)
        return false;
    snprintf(calibration->processor, sizeof calibration->processor, "%s", processor);
    for (int i = 0; i < HT_COSTS; i++) {
        struct ht_median *latency = &calibration->latency[i], *cost = &calibration->cost[i];
        if (json_unpack(costs, "{s:{s:F, s:F, s:F, s:F, s:F, s:F}}", ht_cost_kinds[i].key, "latency_ns",
                        &latency->ns, "low_ns", &latency->low_ns, "high_ns", &latency->high_ns, "cost_ns",
                        &cost->ns, "cost_low_ns", &cost->low_ns, "cost_high_ns", &cost->high_ns))
            return false;
    }
    return true;
}

void ht_cost_model_read(struct ht_cost_model *model) {
    char *path = ht_calibration_path();
    json_t *json = path ? json_load_file(path, 0, NULL) : NULL;
    struct ht_machine machine;
    ht_machine_read(&machine);
    model->measured =
        json && read_json(json, &model->calibration) && !strcmp(model->calibration.processor, machine.cpu);
    if (!model->measured) model->calibration = default_calibration;
    json_decref(json);
    free(path);
}

void ht_model_time(const struct ht_cost_model *model, const json_t *part, struct ht_modelled_time *time) {
#define COUNT(key) (double)json_integer_value(json_object_get(part, key))
    static const char *const far_keys[HT_FARS] = {"far_4mib_misses", "far_8mib_misses", "far_16mib_misses",
                                                  "far_32mib_misses"};
    const double l2 = COUNT("l2_misses"), sequential = COUNT("l2_sequential_misses");
    double counts[HT_COSTS] = {[HT_COST_INSTRUCTION] = COUNT("instructions"),
                               [HT_COST_L1D] = COUNT("l1d_misses") - l2,
                               [HT_COST_L1I] = COUNT("l1i_misses"),
                               [HT_COST_SEQUENTIAL] = sequential,
                               [HT_COST_FAR] = l2 - sequential + COUNT("l2_code_misses"),
                               [HT_COST_DTLB] = COUNT("dtlb_misses"),
                               [HT_COST_STLB] = COUNT("stlb_misses"),
                               [HT_COST_FAULT] = COUNT("faults"),
                               [HT_COST_MAPPING] = COUNT("mapping_calls")};
    // Of the far misses those that the next larger cache misses too.
    for (int i = 0; i < HT_FARS; i++) {
        counts[HT_COST_FAR + i + 1] = COUNT(far_keys[i]);
        counts[HT_COST_FAR + i] -= counts[HT_COST_FAR + i + 1];
    }
#undef COUNT
    for (int i = 0; i < HT_COSTS; i++) time->ns[i] = counts[i] * model->calibration.cost[i].ns;
}

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
