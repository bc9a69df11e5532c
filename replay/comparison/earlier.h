// SPDX-License-Identifier: Apache-2.0
// The figures of an earlier run, of --baseline-file: what allocators are compared with in place of another allocator.
#ifndef HEAPTAPE_EARLIER_H
#define HEAPTAPE_EARLIER_H

#include <jansson.h>

struct ht_earlier {
    const char *path;
    json_t *allocators;  // by name: of figures in rounds a list of values, "counts" of the simulation
};

// That of the name; of a file with one allocator, that. NULL: neither.
const json_t *ht_earlier_of(const struct ht_earlier *earlier, const char *name);

// Its values of a figure in rounds, into values, of which there is room for room. Returns how many.
size_t ht_earlier_values(const json_t *entry, const char *key, double *values, size_t room);

#endif
