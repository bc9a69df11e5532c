// SPDX-License-Identifier: Apache-2.0
// Names for the call sites of a trace: functions, files and lines, as the modules' files and their debugging information
// have them on this machine.
#ifndef HEAPTAPE_SITE_NAMES_H
#define HEAPTAPE_SITE_NAMES_H

#include <jansson.h>

#include "site_table.h"

enum { PERF_MAP_PATH_BYTES = 32 };

// Where the recorded process left the names of generated code, if it did: path, or NULL.
const char *site_names_perf_map(const json_t *context, char path[PERF_MAP_PATH_BYTES]);

// Gives names to the locations that are found; the others keep those that they have. perf_map: of code that is in no module,
// NULL for none. False for want of memory.
bool site_names_resolve(struct ht_site_table *table, const char *perf_map);

// How many locations have a name.
size_t site_names_count(const struct ht_site_table *table);

#endif
