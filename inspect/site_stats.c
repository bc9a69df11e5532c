// SPDX-License-Identifier: Apache-2.0
#include "site_stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checksum.h"
#include "json_values.h"
#include "map64.h"
#include "print.h"
#include "talk.h"

int site_stats_begin(struct site_stats *stats, struct ht_trace_reader *reader, const char *path,
                     struct ht_error *error) {
    stats->of_blocks = slot_table_of(sizeof(uint32_t));
    if (site_words_read(&stats->words, reader, error)) return -1;
    if (!stats->words.table.sites_count) return 0;
    stats->count = stats->words.table.sites_count + 1;
    stats->site = calloc(stats->count, sizeof *stats->site);
    return stats->site ? 0 : ht_error_memory(error, path, "cannot count call sites");
}

void site_stats_free(struct site_stats *stats) {
    site_words_free(&stats->words);
    slot_table_free(&stats->of_blocks);
    free(stats->site);
}

// Before a change: what it was at the peak, if that was not long ago.
static void keep_peak(struct site_figures *site, uint64_t peak_number) {
    if (site->peak_number == peak_number) return;
    site->peak_live = site->live;
    site->peak_live_bytes = site->live_bytes;
    site->peak_number = peak_number;
}

void site_stats_made(struct site_stats *stats, uint32_t slot, uint32_t site, uint64_t bytes, bool inherited,
                     uint64_t peak_number) {
    if (site >= stats->count) site = 0;
    struct site_figures *figures = &stats->site[site];
    ((uint32_t *)stats->of_blocks.items)[slot] = site;
    keep_peak(figures, peak_number);
    figures->calls += !inherited;
    figures->bytes += inherited ? 0 : bytes;
    figures->live++;
    figures->live_bytes += bytes;
}

void site_stats_ended(struct site_stats *stats, uint32_t slot, uint64_t bytes, uint64_t peak_number) {
    struct site_figures *figures = &stats->site[((uint32_t *)stats->of_blocks.items)[slot]];
    keep_peak(figures, peak_number);
    figures->live--;
    figures->live_bytes -= bytes;
}

void site_stats_called(struct site_stats *stats, uint32_t site) {
    stats->site[site < stats->count ? site : 0].calls++;
}

void site_stats_finish(struct site_stats *stats, uint64_t peak_number) {
    for (size_t i = 0; i < stats->count; i++) keep_peak(&stats->site[i], peak_number);
}

static void add(struct site_group *group, uint32_t site, const struct site_figures *figures) {
    if (!group->sites++ || figures->bytes > group->most_bytes) {
        group->site = site;
        group->most_bytes = figures->bytes;
    }
    group->sum.calls += figures->calls;
    group->sum.bytes += figures->bytes;
    group->sum.live += figures->live;
    group->sum.live_bytes += figures->live_bytes;
    group->sum.peak_live += figures->peak_live;
    group->sum.peak_live_bytes += figures->peak_live_bytes;
}

static double larger_share(double share, uint64_t part, uint64_t whole) {
    double other = whole ? (double)part / (double)whole : 0;
    return other > share ? other : share;
}

static int by_share(const void *a, const void *b) {
    const struct site_group *left = a, *right = b;
    if (left->share != right->share) return left->share < right->share ? 1 : -1;
    return (left->site > right->site) - (left->site < right->site);
}

static void set_shares(struct site_group *groups, size_t count) {
    struct site_group all = {0};
    for (size_t i = 0; i < count; i++) add(&all, 0, &groups[i].sum);
    for (size_t i = 0; i < count; i++) {
        const struct site_figures *sum = &groups[i].sum;
        double share = larger_share(0, sum->calls, all.sum.calls);
        share = larger_share(share, sum->bytes, all.sum.bytes);
        share = larger_share(share, sum->peak_live_bytes, all.sum.peak_live_bytes);
        groups[i].share = larger_share(share, sum->live_bytes, all.sum.live_bytes);
    }
    qsort(groups, count, sizeof *groups, by_share);
}

// A hash of the name of a site's caller, with the folder of its file or without.
static uint64_t name_of(const struct site_stats *stats, uint32_t site, bool with_folder) {
    char text[SITE_TEXT_BYTES] = "";
    struct ht_frame innermost, caller;
    if (site_words_find(&stats->words, site, &innermost, &caller))
        site_words_frame(&stats->words, &caller, with_folder, text);
    return XXH64(text, strlen(text), 0) | 1;
}

// False for want of memory.
static bool note_namesakes(const struct site_stats *stats, struct site_group *groups, size_t count) {
    struct map64 known;
    bool memory = map64_init(&known);
    for (size_t i = 0; i < count && memory; i++) {
        uint64_t name = name_of(stats, groups[i].site, false);
        size_t at = map64_find(&known, name);
        if (!map64_has(&known, at)) memory = map64_put(&known, name, i);
        else groups[i].has_namesake = groups[known.entry[at].value].has_namesake = true;
    }
    map64_free(&known);
    return memory;
}

struct site_group *site_stats_groups(const struct site_stats *stats, size_t *count) {
    struct map64 known;
    struct site_group *groups = calloc(stats->count + 1, sizeof *groups);
    bool memory = map64_init(&known) && groups;
    *count = 0;
    for (uint32_t i = 0; i < stats->count && memory; i++) {
        if (!stats->site[i].calls && !stats->site[i].peak_live) continue;
        uint64_t key = name_of(stats, i, true);
        size_t at = map64_find(&known, key);
        size_t group = map64_has(&known, at) ? known.entry[at].value : *count;
        if (group == *count) memory = map64_put(&known, key, (*count)++);
        add(&groups[group], i, &stats->site[i]);
    }
    map64_free(&known);
    if (!memory || !note_namesakes(stats, groups, *count)) {
        free(groups);
        return NULL;
    }
    if (*count) set_shares(groups, *count);
    return groups;
}

// ---- what is shown ----

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
