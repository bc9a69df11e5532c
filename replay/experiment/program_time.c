#include "program_time.h"

#include <math.h>
#include <string.h>

#include "print.h"
#include "text_table.h"

// In ns.
struct program_time {
    double allocator, program, misses;  // misses: those of the program, which it includes
};

// A part's time where each miss costs so many times what the model says; of that the misses.
static double part_ns(const struct ht_cost_model *model, const json_t *part, double miss_cost,
                      double *misses) {
    struct ht_modelled_time time;
    double rest = 0;
    *misses = 0;
    ht_model_time(model, part, &time);
    for (int i = 0; i < HT_COSTS; i++) {
        if (i == HT_COST_INSTRUCTION || i == HT_COST_FAULT) rest += time.ns[i];
        else *misses += time.ns[i] * miss_cost;
    }
    return rest + *misses;
}

static struct program_time time_of(const struct ht_cost_model *model, const json_t *counts,
                                   double miss_cost) {
    struct program_time time;
    time.allocator = part_ns(model, json_object_get(counts, "allocator"), miss_cost, &time.misses);
    time.program = part_ns(model, json_object_get(counts, "program"), miss_cost, &time.misses);
    return time;
}

static double sum(struct program_time time) { return time.allocator + time.program; }

static double ratio(const struct ht_cost_model *model, const json_t *counts, const json_t *base,
                    double miss_cost) {
    return sum(time_of(model, counts, miss_cost)) / sum(time_of(model, base, miss_cost));
}

void ht_program_time_add(json_t *counts, const struct ht_cost_model *model, const char *baseline) {
    const json_t *base = json_object_get(counts, baseline);
    const char *name;
    json_t *one;
    json_object_foreach(counts, name, one) {
        struct program_time time = time_of(model, one, 1);
        json_t *made = json_pack("{s:f, s:f, s:f}", "ns", sum(time), "allocator_ns", time.allocator,
                                 "misses_ns", time.misses);
        if (base) {
            double usual = ratio(model, one, base, 1), half = ratio(model, one, base, 0.5);
            double twice = ratio(model, one, base, 2);
            json_object_set_new(made, "ratio", json_real(usual));
            json_object_set_new(made, "ratio_low", json_real(fmin(usual, fmin(half, twice))));
            json_object_set_new(made, "ratio_high", json_real(fmax(usual, fmax(half, twice))));
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
    snprintf(versus, sizeof versus, "vs %s", baseline);
    table = (struct ht_text_table){.alignments = "lrrrl"};
    ht_table_add(&table, (const char *const[]){"your program's time (modelled)", "ms", "in the allocator",
                                               "program's misses", versus});
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
    ht_print(out, "In brackets: the same where a miss costs half or twice what the model says.\n");
}
