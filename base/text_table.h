// SPDX-License-Identifier: Apache-2.0
// A table for people: columns as wide as their widest cells, aligned.
#ifndef HEAPTAPE_TEXT_TABLE_H
#define HEAPTAPE_TEXT_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { HT_TABLE_COLUMNS_MAX = 9, HT_TABLE_ROWS_MAX = 128, HT_TABLE_CELL_BYTES = 280 };

struct ht_text_table {
    const char *alignments;  // 'l' or 'r', a letter for each column
    size_t rows;
    char cells[HT_TABLE_ROWS_MAX][HT_TABLE_COLUMNS_MAX][HT_TABLE_CELL_BYTES];
};

// Begins a table anew, with its heading. alignments: as above.
void ht_table_begin(struct ht_text_table *table, const char *alignments, const char *const *heading);

// Adds a row; sets its cells from as many strings as there are alignments.
void ht_table_add(struct ht_text_table *table, const char *const *cells);

// Prints the rows, the first being the heading, with two spaces between columns and none at a line's end.
void ht_table_print(FILE *out, const struct ht_text_table *table);

#endif
