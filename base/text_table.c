// SPDX-License-Identifier: Apache-2.0
#include "text_table.h"

#include <assert.h>
#include <string.h>

#include "print.h"
#include "talk.h"

// Columns for what is folded; where there are fewer, nothing is.
enum { FOLDED_MIN = 12 };

void ht_table_begin(struct ht_text_table *table, const char *alignments, const char *const *heading) {
    table->alignments = alignments;
    table->rows = 0;
    ht_table_add(table, heading);
}

void ht_table_add(struct ht_text_table *table, const char *const *cells) {
    assert(table->rows < HT_TABLE_ROWS_MAX);
    for (size_t i = 0; table->alignments[i]; i++) {
        snprintf(table->cells[table->rows][i], HT_TABLE_CELL_BYTES, "%s", cells[i]);
    }
    table->rows++;
}

// Where the last cells of a row are empty, nothing follows them.
static size_t used_columns(const struct ht_text_table *table, size_t row) {
    size_t used = strlen(table->alignments);
    while (used > 0 && !table->cells[row][used - 1][0]) used--;
    return used;
}

// Where the terminal ends, the words of a last cell go on in the next line, below its beginning. room: columns for it; 0:
// any number.
static void print_last(FILE *out, const char *cell, int indent, int room) {
    int used = 0;
    for (const char *at = cell; *at; at += *at == ' ') {
        int length = (int)strcspn(at, " ");
        if (used && room && used + 1 + length > room) {
            fprintf(out, "\n%*s", indent, "");
            used = 0;
        } else if (at > cell) {
            fputc(' ', out);
            used++;
        }
        ht_print(out, "%.*s", length, at);
        used += length;
        at += length;
    }
}

void ht_table_print(FILE *out, const struct ht_text_table *table) {
    int widths[HT_TABLE_COLUMNS_MAX] = {0};
    for (size_t row = 0; row < table->rows; row++) {
        for (size_t i = 0; table->alignments[i]; i++) {
            int width = (int)strlen(table->cells[row][i]);
            if (width > widths[i]) widths[i] = width;
        }
    }
    size_t columns = strlen(table->alignments);
    int before = 2 * (int)(columns - 1), room;
    for (size_t i = 0; i + 1 < columns; i++) before += widths[i];
    room = ht_terminal_columns(out) - before;
    for (size_t row = 0; row < table->rows; row++) {
        size_t used = used_columns(table, row);
        for (size_t i = 0; i < used; i++) {
            const char *cell = table->cells[row][i];
            if (i) fputs("  ", out);
            if (table->alignments[i] == 'r') ht_print(out, "%*s", widths[i], cell);
            else if (i + 1 < used) ht_print(out, "%-*s", widths[i], cell);
            else print_last(out, cell, before, i + 1 == columns && room >= FOLDED_MIN ? room : 0);
        }
        fputc('\n', out);
    }
}
