// SPDX-License-Identifier: Apache-2.0
#include "earlier.h"

const json_t *ht_earlier_of(const struct ht_earlier *earlier, const char *name) {
    const json_t *entry = json_object_get(earlier->allocators, name);
    if (entry || json_object_size(earlier->allocators) != 1) return entry;
    return json_object_iter_value(json_object_iter(earlier->allocators));
}

size_t ht_earlier_values(const json_t *entry, const char *key, double *values, size_t room) {
    const json_t *list = json_object_get(entry, key);
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(list) && count < room; i++)
        values[count++] = json_number_value(json_array_get(list, i));
    return count;
}
