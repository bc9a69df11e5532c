// SPDX-License-Identifier: Apache-2.0
// Numbers and texts in JSON: what is unknown is null, never 0. Integers end at 2^63 - 1 in this library.
#ifndef HEAPTAPE_JSON_VALUES_H
#define HEAPTAPE_JSON_VALUES_H

#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "option_values.h"

// For all that writes reals: jansson writes 17 digits of them before 2.15, then the fewest.
#define HT_JSON_REALS JSON_REAL_PRECISION(17)

// Above that it is a real: a failed malloc(SIZE_MAX) has such a size.
static inline json_t *json_number(uint64_t value) {
    return value > INT64_MAX ? json_real((double)value) : json_integer((json_int_t)value);
}

// UINT64_MAX: unknown.
static inline json_t *json_count(uint64_t value) {
    return value == UINT64_MAX ? json_null() : json_integer((json_int_t)value);
}

static inline json_t *json_figure(double value) { return isnan(value) ? json_null() : json_real(value); }

static inline json_t *json_whole(double value) {
    return isnan(value) ? json_null() : json_integer((json_int_t)llround(value));
}

// Names, paths and command lines need not be UTF-8, JSON's texts must: null then, as of NULL.
static inline json_t *json_text(const char *text) {
    json_t *made = json_string(text);
    return made ? made : json_null();
}

// Null where the text is empty, too.
static inline json_t *json_known_text(const char *text) { return json_text(text && *text ? text : NULL); }

// A list of words with a separator between.
static inline json_t *json_words(const char *words, char separator) {
    json_t *list = json_array();
    for (const char *at = words; at; at = ht_next_word(at, separator))
        json_array_append_new(list, json_stringn(at, strcspn(at, (char[]){separator, 0})));
    return list;
}

// What the text says, which is freed; NULL if that is no object.
static inline json_t *json_parsed(char *text) {
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    if (json_is_object(object)) return object;
    json_decref(object);
    return NULL;
}

// Prints it and drops it. To a terminal nothing beyond ASCII: names may hold control characters from there, too.
static inline void json_print(json_t *value) {
    json_dumpf(value, stdout,
               JSON_INDENT(2) | HT_JSON_REALS | (isatty(STDOUT_FILENO) ? JSON_ENSURE_ASCII : 0));
    putchar('\n');
    json_decref(value);
}

#define HT_JSON_SETTER(kind, type)                                                                           \
    static inline void json_set_##kind(json_t *object, const char *key, type value) {                        \
        json_object_set_new(object, key, json_##kind(value));                                                \
    }
HT_JSON_SETTER(number, uint64_t)
HT_JSON_SETTER(count, uint64_t)
HT_JSON_SETTER(figure, double)
HT_JSON_SETTER(whole, double)
HT_JSON_SETTER(text, const char *)
HT_JSON_SETTER(known_text, const char *)

#endif
