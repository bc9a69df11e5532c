#include "text_table.h"

#include <assert.h>
#include <string.h>

#include "print.h"

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

void ht_table_print(FILE *out, const struct ht_text_table *table) {
    int widths[HT_TABLE_COLUMNS_MAX] = {0};
    for (size_t row = 0; row < table->rows; row++) {
        for (size_t i = 0; table->alignments[i]; i++) {
            int width = (int)strlen(table->cells[row][i]);
            if (width > widths[i]) widths[i] = width;
        }
    }
    for (size_t row = 0; row < table->rows; row++) {
        size_t used = used_columns(table, row);
        for (size_t i = 0; i < used; i++) {
            const char *cell = table->cells[row][i];
            if (i) fputs("  ", out);
            if (table->alignments[i] == 'r') ht_print(out, "%*s", widths[i], cell);
            else if (i + 1 < used) ht_print(out, "%-*s", widths[i], cell);
            else fputs(cell, out);
        }
        fputc('\n', out);
    }
}
