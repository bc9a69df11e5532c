// SPDX-License-Identifier: Apache-2.0
#include "counted_figure.h"

#include <math.h>
#include <string.h>

static double value_of(const json_t *part, const char *key) {
    const json_t *value = json_object_get(part, key);
    return json_is_integer(value) ? (double)json_integer_value(value) : NAN;
}

// The lowest size of the class that holds a size, four of each doubling, as the simulation has them.
static uint64_t class_low(uint64_t bytes) {
    if (bytes < 2) return 0;
    if (bytes < 4) return bytes + bytes % 2;  // 3 is with 4
    int shift = 61 - __builtin_clzll(bytes);
    return bytes >> shift << shift;
}

static double instructions_of_part(const json_t *counts, const struct ht_condition *condition) {
    const json_t *list = json_object_get(counts, "calls_by_size"), *item;
    size_t i;
    double sum = 0;
    if (!list) return NAN;
    json_array_foreach(list, i, item) {
        uint64_t low = (uint64_t)json_integer_value(json_object_get(item, "size_low"));
        const char *function = json_string_value(json_object_get(item, "function"));
        bool named = !condition->function[0] || (function && !strcmp(function, condition->function));
        bool sized = condition->size_bytes == UINT64_MAX || low == class_low(condition->size_bytes);
        if (named && sized) sum += value_of(item, "instructions");
    }
    return sum;
}

// With the program's first touches, less the null replayer's; where accesses were simulated, all of the program.
static double with_touches(const json_t *counts, const char *key) {
    const json_t *time = json_object_get(counts, "time");
    if (time) return value_of(time, key);
    return value_of(json_object_get(counts, "allocator"), key) +
           value_of(json_object_get(counts, "program"), key);
}

double ht_counted_figure(const json_t *counts, const struct ht_condition *condition) {
    const struct ht_counted *counted = condition->counted;
    if (!counts) return NAN;
    if (condition->function[0] || condition->size_bytes != UINT64_MAX)
        return instructions_of_part(counts, condition);
    if (counted->of_calls) return value_of(json_object_get(counts, "allocator"), counted->name);
    return with_touches(counts, counted->name);
}

double ht_counted_instructions(const json_t *counts) {
    static const struct ht_condition all = {.counted = &ht_counted[0], .size_bytes = UINT64_MAX};
    return ht_counted_figure(counts, &all);
}
