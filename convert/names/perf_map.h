// SPDX-License-Identifier: Apache-2.0
// The names of code that a runtime generated, from the map that it wrote for perf.
#ifndef HEAPTAPE_PERF_MAP_H
#define HEAPTAPE_PERF_MAP_H

#include "name_builder.h"

// wanted: the numbers of the locations that lie in no module. Nothing is added where the file cannot be read.
void perf_map_add(struct name_builder *builder, const char *path, const struct ht_location *locations,
                  const uint32_t *wanted, size_t count);

#endif
