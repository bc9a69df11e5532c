// SPDX-License-Identifier: Apache-2.0
#include "limit_report.h"

#include "json_values.h"
#include "print.h"
#include "talk.h"
#include "text_table.h"

enum { CELL_BYTES = 96 };

const char *ht_limit_by(bool by_group) { return by_group ? "control group" : "readings"; }

// The two that a search finds are a page apart, or half a per cent.
const char *ht_limit_text(char text[HT_LIMIT_TEXT_BYTES], uint64_t bytes) {
    int digits = bytes < 10000000 ? 3 : 2;
    if (bytes < 1000000) snprintf(text, HT_LIMIT_TEXT_BYTES, "%.2f kB", (double)bytes / 1e3);
    else snprintf(text, HT_LIMIT_TEXT_BYTES, "%.*f MB", digits, (double)bytes / 1e6);
    return text;
}

static const char *found_text(char text[HT_LIMIT_TEXT_BYTES], uint64_t bytes) {
    return bytes ? ht_limit_text(text, bytes) : "n/a";
}

static const char *outcome_text(const struct ht_limit_result *result, char text[CELL_BYTES]) {
    char event[32], time[32];
    if (!result->known) snprintf(text, CELL_BYTES, "n/a");
    else if (result->lives) snprintf(text, CELL_BYTES, "lives");
    else
        snprintf(text, CELL_BYTES, "dies at %s s of the trace, at event %s",
                 ht_figures(time, (double)result->died_at_ns / 1e9, 3),
                 ht_grouped(event, result->died_event));
    return text;
}

static void print_search(FILE *out, const struct ht_limit_report *report) {
    static struct ht_text_table table;
    char text[2][HT_LIMIT_TEXT_BYTES];
    ht_table_begin(&table, "lrr", (const char *[]){"allocator", "lives under", "dies under"});
    for (size_t i = 0; i < report->plan->choices.count; i++)
        ht_table_add(&table, (const char *[]){report->plan->choices.list[i].name,
                                              found_text(text[0], report->results[i].least_bytes),
                                              found_text(text[1], report->results[i].dies_bytes)});
    ht_table_print(out, &table);
}

static void print_outcomes(FILE *out, const struct ht_limit_report *report) {
    static struct ht_text_table table;
    char limit[HT_LIMIT_TEXT_BYTES], text[CELL_BYTES];
    ht_table_begin(&table, "ll",
                   (const char *[]){"allocator", ht_limit_text(limit, report->plan->memory_max_bytes)});
    for (size_t i = 0; i < report->plan->choices.count; i++)
        ht_table_add(&table, (const char *[]){report->plan->choices.list[i].name,
                                              outcome_text(&report->results[i], text)});
    ht_table_print(out, &table);
}

void ht_limit_report_print(FILE *out, const struct ht_limit_report *report) {
    ht_print(out, "limit of memory, by %s, of %s\n", report->by,
             report->own_known ? "heap and the program's own memory"
                               : "the heap alone: the program's own memory is not known");
    if (report->plan->memory_max_search) print_search(out, report);
    else print_outcomes(out, report);
    fputc('\n', out);
}

json_t *ht_limit_json(const struct ht_limit_result *result, const char *by) {
    if (!result || !result->known) return json_null();
    bool died = !result->lives;
    json_t *made = json_pack("{s:s, s:b, s:I, s:b}", "by", by, "searched", result->searched,
                             "memory_max_bytes", (json_int_t)result->limit_bytes, "lives", result->lives);
    json_set_count(made, "died_at_ns", died ? result->died_at_ns : UINT64_MAX);
    json_set_count(made, "died_at_event", died ? result->died_event : UINT64_MAX);
    json_set_count(made, "least_bytes", result->least_bytes ? result->least_bytes : UINT64_MAX);
    json_set_count(made, "dies_bytes", result->dies_bytes ? result->dies_bytes : UINT64_MAX);
    return made;
}

void ht_limit_report_json(FILE *out, const struct ht_limit_report *report) {
    json_t *allocators = json_array();
    for (size_t i = 0; i < report->plan->choices.count; i++)
        json_array_append_new(allocators,
                              json_pack("{s:o, s:o}", "name", json_text(report->plan->choices.list[i].name),
                                        "limit", ht_limit_json(&report->results[i], report->by)));
    json_t *root = json_pack("{s:o, s:b, s:o}", "trace", json_text(report->plan->trace_path), "own_memory",
                             report->own_known, "allocators", allocators);
    json_dumpf(root, out, JSON_INDENT(2));
    fputc('\n', out);
    json_decref(root);
}
