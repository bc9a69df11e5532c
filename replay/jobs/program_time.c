// SPDX-License-Identifier: Apache-2.0
#include "program_time.h"

#include <math.h>
#include <string.h>

#include "print.h"
#include "text_table.h"

// In ns, by kind of cost.
struct program_time {
    struct ht_modelled_time allocator, program;
};

static double square(double value) { return value * value; }

static double total(const struct ht_modelled_time *time) {
    double sum = 0;
    for (int i = 0; i < HT_COSTS; i++) sum += time->ns[i];
    return sum;
}

static double whole(const struct program_time *time) {
    return total(&time->allocator) + total(&time->program);
}

static struct program_time time_of(const struct ht_cost_model *model, const json_t *counts) {
    struct program_time time;
    ht_model_time(model, json_object_get(counts, "allocator"), &time.allocator);
    ht_model_time(model, json_object_get(counts, "program"), &time.program);
    return time;
}

// The ratio where one kind of event has another cost.
static double ratio_at(const struct program_time *one, const struct program_time *base, int kind,
                       double factor) {
    double more = (one->allocator.ns[kind] + one->program.ns[kind]) * (factor - 1);
    double base_more = (base->allocator.ns[kind] + base->program.ns[kind]) * (factor - 1);
    return (whole(one) + more) / (whole(base) + base_more);
}

// Of sampled accesses, as the tool leaves them: what each group of bursts adds to the modelled time, instead of its misses.
static void model_groups(const struct ht_cost_model *model, const json_t *counts) {
    json_t *groups = json_object_get(json_object_get(counts, "sampled"), "groups"), *group;
    size_t i;
    json_array_foreach(groups, i, group) {
        struct program_time time = time_of(model, group);
        json_object_set_new(group, "ns", json_real(whole(&time)));
        json_object_del(group, "program");
        json_object_del(group, "allocator");
    }
}

struct sampled_group {
    double accesses, ns;
};

static struct sampled_group group_of(const json_t *groups, size_t i) {
    const json_t *group = json_array_get(groups, i);
    return (struct sampled_group){json_number_value(json_object_get(group, "accesses")),
                                  json_number_value(json_object_get(group, "ns"))};
}

// How far the ratio can be off because only bursts were simulated: by how much the groups of bursts differ from one another in
// it. The bursts are the same under both allocators.
static double sampling_error(const json_t *counts, const json_t *base_counts, double ratio, double base_ns) {
    const json_t *groups = json_object_get(json_object_get(counts, "sampled"), "groups");
    const json_t *base_groups = json_object_get(json_object_get(base_counts, "sampled"), "groups");
    size_t count = json_array_size(groups);
    double accesses = 0, sum = 0, squares = 0;
    if (count < 2 || json_array_size(base_groups) != count) return 0;
    for (size_t i = 0; i < count; i++) {
        struct sampled_group group = group_of(groups, i);
        accesses += group.accesses;
        sum += group.ns - ratio * group_of(base_groups, i).ns;
    }
    for (size_t i = 0; i < count; i++) {
        struct sampled_group group = group_of(groups, i);
        squares += square(group.ns - ratio * group_of(base_groups, i).ns - sum * group.accesses / accesses);
    }
    return HT_SAMPLING_QUANTILE * sqrt(squares * (double)count / (double)(count - 1)) / base_ns;
}

// By the intervals of the costs, each by itself, by what the model is off in the time of each allocator and in
// the program's own difference, and by the sample; all added in quadrature.
static void add_ratio(json_t *made, const struct ht_cost_model *model, const struct program_time *one,
                      const struct program_time *base, double sampled) {
    double ratio = whole(one) / whole(base);
    double off = square(total(&one->allocator)) + square(ratio * total(&base->allocator)) +
                 square(total(&one->program) - total(&base->program));
    double below = off * square(HT_MODEL_RESIDUAL / whole(base)) + square(sampled), above = below;
    for (int i = 0; i < HT_COSTS; i++) {
        const struct ht_median *cost = &model->calibration.cost[i];
        if (cost->ns <= 0) continue;
        double ends[] = {ratio_at(one, base, i, cost->low_ns / cost->ns) - ratio,
                         ratio_at(one, base, i, cost->high_ns / cost->ns) - ratio};
        below += square(fmin(0, fmin(ends[0], ends[1])));
        above += square(fmax(0, fmax(ends[0], ends[1])));
    }
    json_object_set_new(made, "ratio", json_real(ratio));
    json_object_set_new(made, "ratio_low", json_real(fmax(0, ratio - sqrt(below))));
    json_object_set_new(made, "ratio_high", json_real(ratio + sqrt(above)));
}

void ht_program_time_add(json_t *counts, const struct ht_cost_model *model, const char *baseline) {
    const json_t *base = json_object_get(counts, baseline);
    const char *name;
    json_t *one;
    json_object_foreach(counts, name, one) model_groups(model, one);
    json_object_foreach(counts, name, one) {
        struct program_time time = time_of(model, one), base_time = time_of(model, base);
        const double *program = time.program.ns;
        double misses = total(&time.program) - program[HT_COST_INSTRUCTION] - program[HT_COST_FAULT];
        json_t *made = json_pack("{s:f, s:f, s:f}", "ns", whole(&time), "allocator_ns",
                                 total(&time.allocator), "misses_ns", misses);
        if (base) {
            double off = sampling_error(one, base, whole(&time) / whole(&base_time), whole(&base_time));
            add_ratio(made, model, &time, &base_time, off);
        }
        json_object_set_new(one, "program_time", made);
    }
}

static double real_of(const json_t *object, const char *key) {
    return json_real_value(json_object_get(object, key));
}

void ht_program_time_print(FILE *out, const json_t *counts, const char *baseline) {
    static struct ht_text_table table;
    const char *name;
    json_t *one;
    char versus[300];
    const json_t *sampled = json_object_get(json_object_get(counts, baseline), "sampled");
    snprintf(versus, sizeof versus, "vs %s", baseline);
    table = (struct ht_text_table){.alignments = "lrrrl"};
    ht_table_add(&table, (const char *const[]){sampled ? "your program's time (modelled, sampled)"
                                                       : "your program's time (modelled)",
                                               "ms", "in the allocator", "program's misses", versus});
    json_object_foreach((json_t *)counts, name, one) {
        const json_t *time = json_object_get(one, "program_time");
        char ms[32], allocator[32], misses[32], text[64] = "";
        snprintf(ms, sizeof ms, "%.2f", real_of(time, "ns") / 1e6);
        snprintf(allocator, sizeof allocator, "%.2f", real_of(time, "allocator_ns") / 1e6);
        snprintf(misses, sizeof misses, "%.2f", real_of(time, "misses_ns") / 1e6);
        if (json_object_get(time, "ratio") && strcmp(name, baseline))
            snprintf(text, sizeof text, "%.3f [%.3f, %.3f]", real_of(time, "ratio"),
                     real_of(time, "ratio_low"), real_of(time, "ratio_high"));
        ht_table_add(&table, (const char *const[]){name, ms, allocator, misses, text});
    }
    ht_table_print(out, &table);
    ht_print(out, "In brackets: the error of the costs, from their calibration and the model's residual");
    if (!sampled) ht_print(out, "; counts are exact.\n");
    else
        ht_print(
            out,
            ", and the sample: misses are extrapolated from %d bursts; instructions and page faults are exact.\n",
            (int)json_integer_value(json_object_get(sampled, "bursts")));
}
