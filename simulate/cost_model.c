#include "cost_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine_facts.h"

const struct ht_cost_kind ht_cost_kinds[HT_COSTS] = {
    [HT_COST_INSTRUCTION] = {"instruction", "instruction", 1.15},
    [HT_COST_L1D] = {"l1d_miss", "L1D miss", 0},
    [HT_COST_L1I] = {"l1i_miss", "L1I miss", 0.4},
    [HT_COST_SEQUENTIAL] = {"l2_sequential_miss", "L2 miss, sequential", 0},
    [HT_COST_FAR] = {"l2_miss", "L2 miss", 0.6},
    [HT_COST_DTLB] = {"dtlb_miss", "TLB miss", 0.7},
    [HT_COST_STLB] = {"stlb_miss", "second TLB miss", 0.7},
    [HT_COST_FAULT] = {"fault", "page fault", 1},
    [HT_COST_MAPPING] = {"mapping_call", "mapping call", 1},
};

// Of a virtual machine, when its neighbours were quiet.
static const struct ht_calibration default_calibration = {
    .processor = "Intel Xeon (Sapphire Rapids)",
    .cycle_ns = 0.326,
    .latency = {[HT_COST_INSTRUCTION] = {0.074, 0.074, 0.105},
                [HT_COST_L1D] = {3.7, 3.7, 4.4},
                [HT_COST_L1I] = {3.7, 3.7, 4.4},
                [HT_COST_SEQUENTIAL] = {5.4, 5.4, 5.6},
                [HT_COST_FAR] = {104, 104, 140},
                [HT_COST_DTLB] = {2.3, 2.3, 2.9},
                [HT_COST_STLB] = {16.5, 16.5, 17},
                [HT_COST_FAULT] = {1340, 1325, 1500},
                [HT_COST_MAPPING] = {1550, 1500, 1800}}};

char *ht_calibration_path(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int made = -1;
    if (cache && *cache == '/') made = asprintf(&path, "%s/heaptape/calibration.json", cache);
    else if (home && *home) made = asprintf(&path, "%s/.cache/heaptape/calibration.json", home);
    return made < 0 ? NULL : path;
}

json_t *ht_calibration_json(const struct ht_calibration *calibration) {
    json_t *costs = json_object();
    for (int i = 0; i < HT_COSTS; i++) {
        const struct ht_latency *latency = &calibration->latency[i];
        json_object_set_new(costs, ht_cost_kinds[i].key,
                            json_pack("{s:f, s:f, s:f, s:f, s:f}", "latency_ns", latency->ns, "low_ns",
                                      latency->low_ns, "high_ns", latency->high_ns, "share",
                                      ht_cost_kinds[i].share, "cost_ns",
                                      latency->ns * ht_cost_kinds[i].share));
    }
    return json_pack("{s:i, s:s, s:f, s:o}", "schema", 1, "processor", calibration->processor, "cycle_ns",
                     calibration->cycle_ns, "costs", costs);
}

static bool read_json(const json_t *json, struct ht_calibration *calibration) {
    const char *processor;
    json_t *costs;
    if (json_unpack((json_t *)json, "{s:s, s:F, s:o}", "processor", &processor, "cycle_ns",
                    &calibration->cycle_ns, "costs", &costs))
        return false;
    snprintf(calibration->processor, sizeof calibration->processor, "%s", processor);
    for (int i = 0; i < HT_COSTS; i++) {
        struct ht_latency *latency = &calibration->latency[i];
        if (json_unpack(costs, "{s:{s:F, s:F, s:F}}", ht_cost_kinds[i].key, "latency_ns", &latency->ns,
                        "low_ns", &latency->low_ns, "high_ns", &latency->high_ns))
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
    const double l2 = COUNT("l2_misses"), sequential = COUNT("l2_sequential_misses");
    const double counts[HT_COSTS] = {[HT_COST_INSTRUCTION] = COUNT("instructions"),
                                     [HT_COST_L1D] = COUNT("l1d_misses") - l2,
                                     [HT_COST_L1I] = COUNT("l1i_misses"),
                                     [HT_COST_SEQUENTIAL] = sequential,
                                     [HT_COST_FAR] = l2 - sequential + COUNT("l2_code_misses"),
                                     [HT_COST_DTLB] = COUNT("dtlb_misses"),
                                     [HT_COST_STLB] = COUNT("stlb_misses"),
                                     [HT_COST_FAULT] = COUNT("faults"),
                                     [HT_COST_MAPPING] = COUNT("mapping_calls")};
#undef COUNT
    for (int i = 0; i < HT_COSTS; i++)
        time->ns[i] = counts[i] * ht_cost_kinds[i].share * model->calibration.latency[i].ns;
}
