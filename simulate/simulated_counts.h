// SPDX-License-Identifier: Apache-2.0
// The counts that the tool leaves, a file for each process.
#ifndef HEAPTAPE_SIMULATED_COUNTS_H
#define HEAPTAPE_SIMULATED_COUNTS_H

#include <jansson.h>

#include "text_table.h"

// A new folder for them, below $TMPDIR or /tmp, and what to give the tool as its file. NULL: it cannot be made.
char *ht_counts_folder(void);
char *ht_counts_pattern(const char *folder);

// Reads and removes all that lies in the folder, and the folder: an array, by process id. Both paths are freed.
json_t *ht_counts_collect(char *folder, char *pattern);

// A table of counts, from an empty one: its heading, then a row for each part of a process's counts.
void ht_counts_table_begin(struct ht_text_table *table, const char *title);
void ht_counts_table_add(struct ht_text_table *table, const char *name, const json_t *part);

#endif
