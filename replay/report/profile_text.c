// SPDX-License-Identifier: Apache-2.0
#include "profile_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"
#include "text_table.h"

enum { FUNCTIONS_SHOWN = 6 };
static const double share_shown_min = 0.01;

struct function {
    const char *name;
    json_int_t own, with_callees;  // samples
};

static void add_samples(json_t *sums, const char *name, json_int_t samples) {
    json_object_set_new(sums, name, json_integer(json_integer_value(json_object_get(sums, name)) + samples));
}

// A function that calls itself counts once.
static bool stands_below(const json_t *frames, size_t depth) {
    const char *name = json_string_value(json_array_get(frames, depth));
    for (size_t i = depth + 1; i < json_array_size(frames); i++)
        if (!strcmp(name, json_string_value(json_array_get(frames, i)))) return true;
    return false;
}

static void sum_up(const json_t *profile, json_t *own, json_t *with_callees) {
    const json_t *stack;
    size_t i;
    json_array_foreach(json_object_get(profile, "stacks"), i, stack) {
        const json_t *frames = json_object_get(stack, "frames");
        json_int_t samples = json_integer_value(json_object_get(stack, "samples"));
        size_t depth = json_array_size(frames);
        for (size_t at = 0; at < depth; at++) {
            const char *name = json_string_value(json_array_get(frames, at));
            if (!stands_below(frames, at)) add_samples(with_callees, name, samples);
            if (at + 1 == depth) add_samples(own, name, samples);
        }
    }
}

static int by_own(const void *a, const void *b) {
    const struct function *one = a, *other = b;
    if (one->own != other->own) return one->own < other->own ? 1 : -1;
    return strcmp(one->name, other->name);
}

static void add_row(struct ht_text_table *table, const char *allocator, const struct function *function,
                    double samples, double instructions) {
    char own[32], count[32], with[32];
    snprintf(own, sizeof own, "%.1f %%", 100 * (double)function->own / samples);
    snprintf(with, sizeof with, "%.1f %%", 100 * (double)function->with_callees / samples);
    ht_grouped(count, (uint64_t)(instructions * (double)function->own / samples));
    ht_table_add(table, (const char *const[]){allocator, function->name, own, count, with});
}

static void add_allocator(struct ht_text_table *table, const char *allocator, const json_t *counts) {
    const json_t *profile = json_object_get(counts, "profile");
    double samples = (double)json_integer_value(json_object_get(profile, "samples"));
    double instructions =
        (double)json_integer_value(json_object_get(json_object_get(counts, "allocator"), "instructions"));
    json_t *own = json_object(), *with_callees = json_object(), *value;
    sum_up(profile, own, with_callees);
    struct function *functions = calloc(json_object_size(own) + 1, sizeof *functions);
    const char *name;
    size_t count = 0;
    json_object_foreach(own, name, value) {
        if (!functions) break;
        functions[count++] = (struct function){name, json_integer_value(value),
                                               json_integer_value(json_object_get(with_callees, name))};
    }
    if (functions) qsort(functions, count, sizeof *functions, by_own);
    for (size_t i = 0; i < count && i < FUNCTIONS_SHOWN; i++)
        if (!i || (double)functions[i].own >= share_shown_min * samples)
            add_row(table, i ? "" : allocator, &functions[i], samples, instructions);
    free(functions);
    json_decref(own);
    json_decref(with_callees);
}

void ht_profile_print(FILE *out, const json_t *all) {
    static struct ht_text_table table;
    static const char *const heading[] = {"instructions in", "function", "own share", "own", "with callees"};
    const char *name;
    json_t *counts;
    ht_table_begin(&table, "llrrr", heading);
    json_object_foreach((json_t *)all, name, counts) {
        if (strcmp(name, "null") && json_object_get(counts, "profile")) add_allocator(&table, name, counts);
    }
    if (table.rows < 2) return;
    fputc('\n', out);
    ht_table_print(out, &table);
}
