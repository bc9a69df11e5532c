// SPDX-License-Identifier: Apache-2.0
// Modelled times of counts, as JSON and as a table.
#ifndef HEAPTAPE_COST_TABLE_H
#define HEAPTAPE_COST_TABLE_H

#include <stdio.h>

#include "cost_model.h"
#include "text_table.h"

// Gives a part of a process's counts, if there is one, its "modelled_ns", by kind and in all.
void ht_add_modelled(const struct ht_cost_model *model, json_t *part);

// A table in ms, of parts that have got theirs, from an empty one: heading, then a row for each part.
void ht_cost_table_begin(struct ht_text_table *table);
void ht_cost_table_add(struct ht_text_table *table, const char *name, const json_t *part);
// Prints it, and which machine's costs it has.
void ht_cost_table_print(FILE *out, const struct ht_text_table *table, const struct ht_cost_model *model);

#endif
