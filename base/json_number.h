// Counts, sizes and times in JSON, whose integers end at 2^63 - 1 in this library.
#ifndef HEAPTAPE_JSON_NUMBER_H
#define HEAPTAPE_JSON_NUMBER_H

#include <jansson.h>
#include <stdint.h>

// Above that it is a real: a failed malloc(SIZE_MAX) has such a size.
static inline json_t *json_number_of(uint64_t value) {
    return value > INT64_MAX ? json_real((double)value) : json_integer((json_int_t)value);
}

static inline void json_set_number(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_number_of(value));
}

#endif
