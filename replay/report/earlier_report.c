// SPDX-License-Identifier: Apache-2.0
#include "earlier_report.h"

#include <math.h>
#include <string.h>

#include "against.h"
#include "json_values.h"
#include "print.h"
#include "talk.h"
#include "text_table.h"

enum { ROWS_MAX = HT_CONDITIONS_MAX + HT_FIGURES + 1, CELL_BYTES = 64 };

static void add_row(struct ht_condition rows[ROWS_MAX], size_t *count, const struct ht_condition *row) {
    size_t length = strcspn(row->text, " <>=");
    for (size_t i = 0; i < *count; i++)
        if (strlen(rows[i].text) == length && !strncmp(rows[i].text, row->text, length)) return;
    rows[*count] = *row;
    rows[(*count)++].text[length] = 0;
}

// Instructions and memory, and what else there are conditions of. Time is never compared with another run's.
static size_t rows_of(const struct ht_comparison *c, struct ht_condition rows[ROWS_MAX]) {
    struct ht_condition row = {.text = "instructions", .counted = &ht_counted[0], .size_bytes = UINT64_MAX};
    size_t count = 0;
    if (c->counts) add_row(rows, &count, &row);
    row.counted = NULL;
    for (row.figure = HT_FIGURE_PEAK; row.figure < HT_FIGURES && c->measurements; row.figure++) {
        strcpy(row.text, ht_figure_words[row.figure].name);
        add_row(rows, &count, &row);
    }
    for (size_t i = 0; i < c->plan->conditions.count; i++) {
        row = c->plan->conditions.list[i];
        const char *name = c->plan->conditions.list[i].text;
        strcpy(row.text, name + strspn(name, " "));
        add_row(rows, &count, &row);
    }
    return count;
}

static const char *value_text(double value, char text[CELL_BYTES]) {
    return isnan(value) ? "n/a" : ht_grouped(text, (uint64_t)llround(value));
}

static const char *ratio_text(const struct ht_interval *ratio, char text[CELL_BYTES]) {
    if (isnan(ratio->estimate)) return "n/a";
    if (isnan(ratio->low) || ratio->count == 1) snprintf(text, CELL_BYTES, "%.4f", ratio->estimate);
    else snprintf(text, CELL_BYTES, "%.4f [%.4f, %.4f]", ratio->estimate, ratio->low, ratio->high);
    return text;
}

void ht_earlier_print(FILE *out, const struct ht_comparison *c) {
    static struct ht_text_table table;
    static struct ht_condition rows[ROWS_MAX];
    size_t count = rows_of(c, rows);
    ht_table_begin(&table, "llrrl", (const char *[]){"allocator", "figure", "then", "now", "now/then"});
    for (size_t k = 0; k < c->count; k++) {
        for (size_t i = 0; i < count; i++) {
            struct ht_against found = ht_against(c, &rows[i], k);
            char now[CELL_BYTES], then[CELL_BYTES], ratio[CELL_BYTES];
            if (isnan(found.now) || isnan(found.then)) continue;
            ht_table_add(&table, (const char *[]){c->plan->choices.list[k].name, rows[i].text,
                                                  value_text(found.then, then), value_text(found.now, now),
                                                  ratio_text(&found.widened, ratio)});
        }
    }
    ht_print(out, "\nagainst %s:\n", c->earlier->path);
    ht_table_print(out, &table);
}

json_t *ht_earlier_json(const struct ht_comparison *c) {
    static struct ht_condition rows[ROWS_MAX];
    size_t count = rows_of(c, rows);
    json_t *list = json_array();
    for (size_t k = 0; k < c->count; k++) {
        for (size_t i = 0; i < count; i++) {
            struct ht_against found = ht_against(c, &rows[i], k);
            json_array_append_new(list,
                                  json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "allocator",
                                            json_text(c->plan->choices.list[k].name), "figure", rows[i].text,
                                            "then", json_figure(found.then), "now", json_figure(found.now),
                                            "ratio", json_figure(found.ratio.estimate), "verdict_low",
                                            json_figure(found.widened.low), "verdict_high",
                                            json_figure(found.widened.high)));
        }
    }
    return json_pack("{s:o, s:o}", "file", json_text(c->earlier->path), "figures", list);
}
