// SPDX-License-Identifier: Apache-2.0
#include "site_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_values.h"
#include "print.h"
#include "talk.h"

enum { ROWS_TEXT = 10, ROWS_JSON = 100 };

// A name of a template may be as long as it likes.
enum { SHOWN_BYTES_MAX = 160 };

static void print_name(const struct site_stats *stats, const struct site_group *group) {
    char text[SITE_TEXT_BYTES] = "unknown";
    struct ht_frame innermost, caller;
    bool known = site_words_find(&stats->words, group->site, &innermost, &caller);
    if (known) site_words_frame(&stats->words, &caller, group->has_namesake, text);
    if (strlen(text) > SHOWN_BYTES_MAX) strcpy(text + SHOWN_BYTES_MAX, "...");
    ht_print(stdout, "%s", text);
    bool through = known && innermost.function != caller.function && *innermost.function;
    if (through) ht_print(stdout, ", by %.*s", SHOWN_BYTES_MAX, innermost.function);
    putchar('\n');
}

void site_report_text(const struct site_stats *stats) {
    size_t count;
    struct site_group *groups = stats->count ? site_stats_groups(stats, &count) : NULL;
    if (!groups) return;
    printf("\n%14s  %9s  %12s  %11s  call site\n", "calls", "allocated", "live at peak", "live at end");
    for (size_t i = 0; i < count && i < ROWS_TEXT; i++) {
        const struct site_figures *sum = &groups[i].sum;
        char a[32], b[32], c[32], d[32];
        printf("%14s  %9s  %12s  %11s  ", ht_grouped(a, sum->calls), ht_bytes(b, (double)sum->bytes),
               ht_bytes(c, (double)sum->peak_live_bytes), ht_bytes(d, (double)sum->live_bytes));
        print_name(stats, &groups[i]);
    }
    if (count > ROWS_TEXT) printf("%14s\n", "...");
    free(groups);
}

static json_t *frame_json(const struct site_words *words, const struct ht_frame *frame) {
    json_t *object = json_object();
    json_set_known_text(object, "function", frame->function);
    json_set_known_text(object, "file", frame->file);
    json_object_set_new(object, "line", frame->line ? json_number(frame->line) : json_null());
    json_set_known_text(object, "module", site_words_module(words, frame));
    json_set_number(object, "offset", frame->location->offset);
    json_object_set_new(object, "inlined", json_boolean(frame->inlined));
    return object;
}

static json_t *frames_json(const struct site_words *words, uint32_t site) {
    struct ht_frames frames = ht_site_frames(&words->table, site);
    struct ht_frame frame;
    json_t *list = json_array();
    while (ht_next_frame(&frames, &frame)) json_array_append_new(list, frame_json(words, &frame));
    return list;
}

json_t *site_report_json(const struct site_stats *stats) {
    size_t count = 0;
    struct site_group *groups = stats->count ? site_stats_groups(stats, &count) : NULL;
    json_t *list = json_array();
    for (size_t i = 0; groups && i < count && i < ROWS_JSON; i++) {
        const struct site_figures *sum = &groups[i].sum;
        struct ht_frame innermost, caller;
        bool known = site_words_find(&stats->words, groups[i].site, &innermost, &caller);
        json_t *row = json_object();
        json_object_set_new(row, "caller", known ? frame_json(&stats->words, &caller) : json_null());
        json_set_number(row, "calls", sum->calls);
        json_set_number(row, "bytes", sum->bytes);
        json_set_number(row, "live_peak", sum->peak_live);
        json_set_number(row, "live_peak_bytes", sum->peak_live_bytes);
        json_set_number(row, "live_end", sum->live);
        json_set_number(row, "live_end_bytes", sum->live_bytes);
        json_set_number(row, "stacks", groups[i].sites);
        json_object_set_new(row, "frames", frames_json(&stats->words, groups[i].site));
        json_array_append_new(list, row);
    }
    free(groups);
    return list;
}
