// SPDX-License-Identifier: Apache-2.0
#include "extension.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "context_words.h"
#include "event_copy.h"
#include "file_digest.h"
#include "json_values.h"
#include "looped_trace.h"
#include "plan_loops.h"
#include "prelude.h"
#include "site_table.h"
#include "steady_stretch.h"
#include "talk.h"
#include "trace_json.h"

static const uint64_t LOOPS_MAX = 100000;
static const double LIVE_ERROR_MAX = 0.01;
// So many blocks must have been freed, and made, if they are that share of live bytes: fewer say too little about the next ones.
enum { TURNED_MIN = 20 };
static const double TURNED_SHARE = 0.01;
// So many live blocks, and so large a share of them, may have no partner.
enum { ALONE_MIN = 50 };
static const double ALONE_SHARE = 0.03;
enum { TRIES = 4 };  // stretches that begin later and later, as long as what is planned proves unsound

__attribute__((format(printf, 3, 4))) static int refuse(struct ht_error *error, const char *path,
                                                        const char *format, ...) {
    char words[640];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    errno = 0;
    ht_error_system(error, path, "cannot be extended: %s", words);
    error->status = HT_EXIT_UNDECIDED;
    return -1;
}

static void span_words(char text[80], uint64_t from_ns, uint64_t until_ns) {
    char from[EXTENDED_TIME_BYTES], until[EXTENDED_TIME_BYTES];
    snprintf(text, 80, "%s to %s", extended_time(from, from_ns), extended_time(until, until_ns));
}

static bool is_given(const struct extension_request *request) {
    return request->from_ns != UINT64_MAX || request->until_ns != UINT64_MAX;
}

static int read_windows(struct ht_trace_reader *reader, const char *path,
                        const struct extension_request *request, struct steady_windows *windows,
                        struct ht_error *error) {
    if (steady_windows_read(reader, path, windows, error)) return -1;
    bool begins = request->from_ns == UINT64_MAX || request->from_ns < windows->end_ns;
    if (request->to_ns > windows->end_ns && begins) return 0;
    char to[EXTENDED_TIME_BYTES], end[EXTENDED_TIME_BYTES];
    errno = 0;
    ht_error_system(error, path, "expected %s the end of the recording, %s, found %s",
                    begins ? "a time after" : "a stretch that begins before",
                    extended_time(end, windows->end_ns),
                    extended_time(to, begins ? request->to_ns : request->from_ns));
    error->status = HT_EXIT_USAGE;
    steady_windows_free(windows);
    return -1;
}

// A trend is no reason to expect its like for any time.
static int judge_growth(const struct steady_stretch *stretch, uint64_t to_ns, const char *path,
                        struct ht_error *error) {
    uint64_t known_ns = growth_known_until_ns(stretch);
    if (to_ns <= known_ns) return 0;
    struct growth then = growth_at(stretch, to_ns);
    char span[80], to[EXTENDED_TIME_BYTES], known[EXTENDED_TIME_BYTES], slope[32], low[32], high[32];
    span_words(span, stretch->from_ns, stretch->until_ns);
    if (growth_is_level_that_moves(stretch))
        return refuse(
            error, path,
            "live bytes change from %s by %s MB/hour, too slowly to say whether that goes on: at %s they are "
            "between %s and %s MB; up to %s that range is narrow enough",
            span, ht_figures(slope, stretch->live.step * 3600e9 / 1e6, 3), extended_time(to, to_ns),
            ht_figures(low, then.low_bytes / 1e6, 3), ht_figures(high, then.high_bytes / 1e6, 3),
            extended_time(known, known_ns));
    return refuse(
        error, path,
        "live bytes grow from %s, by %s MB/hour; whether that slows down or speeds up would show in a "
        "longer stretch: at %s they are between %s and %s MB; up to %s that range is narrow enough",
        span, ht_figures(slope, stretch->live.step * 3600e9 / 1e6, 3), extended_time(to, to_ns),
        ht_figures(low, then.low_bytes / 1e6, 3), ht_figures(high, then.high_bytes / 1e6, 3),
        extended_time(known, known_ns));
}

enum { SLICE_BYTES = 128 };

// How to continue one phase of several all the same.
static const char *slice_words(char text[SLICE_BYTES], const struct steady_stretch *stretch) {
    text[0] = 0;
    if (stretch->verdict == STEADY_ONE_PHASE)
        snprintf(
            text, SLICE_BYTES,
            "; to extend that phase alone, cut it out by heaptape slice --from-time %.3fs --to-time %.3fs",
            (double)stretch->from_ns / 1e9, (double)stretch->until_ns / 1e9);
    return text;
}

// Finds or judges the stretch.
static int choose_stretch(const struct steady_windows *windows, const char *path, size_t from_window,
                          const struct extension_request *request, struct steady_stretch *stretch,
                          struct ht_error *error) {
    char span[80];
    if (is_given(request)) steady_stretch_judge(windows, request->from_ns, request->until_ns, stretch);
    else steady_stretch_find(windows, from_window, stretch);
    // Who gives a stretch is told what it leaves open, with the result.
    if (stretch->verdict == STEADY_YES)
        return is_given(request) ? 0 : judge_growth(stretch, request->to_ns, path, error);
    span_words(span, stretch->from_ns, stretch->until_ns);
    char slice[SLICE_BYTES];
    return refuse(error, path, "%sin %s, %s%s", is_given(request) ? "" : "no steady stretch; ", span,
                  stretch->words, slice_words(slice, stretch));
}

// What the plan has shown.
static int judge_plan(const struct loop_plan *plan, const char *path, struct ht_error *error) {
    double live = fmax(plan->live_bytes, 1);
    uint64_t fewer = plan->freed_objects < plan->made_objects ? plan->freed_objects : plan->made_objects;
    uint64_t turned = plan->freed_bytes > plan->made_bytes ? plan->freed_bytes : plan->made_bytes;
    if (plan->loops > LOOPS_MAX)
        return refuse(error, path, "the stretch is too short: it would be repeated %" PRIu64 " times",
                      plan->loops);
    if (fewer < TURNED_MIN && (double)turned > TURNED_SHARE * live && plan->grown_bytes == 0)
        return refuse(error, path,
                      "the stretch is too short: it frees only %" PRIu64
                      " of the blocks from before it, and leaves %" PRIu64
                      " behind it, %.0f %% of live bytes; expected %d and more of both",
                      plan->freed_objects, plan->made_objects, 100 * (double)turned / live, (int)TURNED_MIN);
    char freed[HT_NUMBER_OF_BYTES];
    uint64_t alone = plan->unmatched_freed + plan->unmatched_made;
    if (plan->grown_bytes == 0 && (double)alone > ALONE_SHARE * (double)plan->live_objects &&
        alone > ALONE_MIN)
        return refuse(error, path,
                      "the stretch frees %s from before it, and leaves %" PRIu64
                      " behind it: what is live changes",
                      ht_number_of(freed, plan->freed_objects, "block"), plan->made_objects);
    if (fabs(plan->live_error) > LIVE_ERROR_MAX)
        return refuse(
            error, path,
            "what is freed and what is made in the stretch differ: live bytes of its repetitions would be off by "
            "%+.1f %%",
            100 * plan->live_error);
    return 0;
}

// ---- what the extended trace says of itself ----

// The program's own memory when it was last measured up to then; NaN if it was not.
static double own_bytes_at(const struct ht_trace_facts *facts, uint64_t time_ns) {
    double bytes = NAN;
    for (size_t i = 0; i < facts->samples_count && facts->samples[i].time_ns <= time_ns; i++)
        bytes = (double)facts->samples[i].own_rss_bytes;
    return bytes;
}

static json_t *describe(const char *path, const struct extension_request *request,
                        const struct steady_stretch *stretch, const struct loop_plan *plan,
                        const struct ht_trace_facts *facts, const char *digest) {
    const char *slash = strrchr(path, '/');
    const double hour_ns = 3600e9;
    json_t *said = json_object();
    json_object_set_new(said, "trace", trace_json_string(slash ? slash + 1 : path));
    json_set_text(said, "trace_sha256", digest);
    json_set_number(said, "from_ns", plan->from_ns);
    json_set_number(said, "until_ns", plan->until_ns);
    json_set_number(said, "to_ns", request->to_ns);
    json_set_number(said, "from_event", plan->from_event);
    json_set_number(said, "end_event", plan->end_event);
    json_object_set_new(said, "given", json_boolean(stretch->given));
    json_set_text(said, "why", stretch->words);
    json_set_number(said, "loops", plan->loops);
    json_set_number(said, "loop_events", plan->rows);
    json_set_figure(said, "calls_per_s", stretch->calls_per_s);
    json_set_figure(said, "live_mean_bytes", stretch->live.mean);
    json_set_figure(said, "live_until_bytes", plan->live_bytes);
    json_object_set_new(said, "grows", json_boolean(stretch->grows));
    json_set_number(said, "grown_bytes_per_loop", plan->grown_bytes);
    json_set_figure(said, "live_slope_bytes_per_hour", stretch->live.step * hour_ns);
    json_set_figure(said, "live_slope_low", stretch->live.low * hour_ns);
    json_set_figure(said, "live_slope_high", stretch->live.high * hour_ns);
    struct growth then = growth_at(stretch, request->to_ns);
    json_set_figure(said, "live_to_bytes", then.bytes);
    json_set_figure(said, "live_to_low_bytes", then.low_bytes);
    json_set_figure(said, "live_to_high_bytes", then.high_bytes);
    json_set_figure(said, "live_to_slope_doubt", then.slope_doubt * hour_ns);
    json_set_figure(said, "own_until_bytes", own_bytes_at(facts, plan->until_ns));
    if (stretch->left_out_bytes > 0)
        json_set_figure(said, "left_out_live_peak_bytes", stretch->left_out_bytes);
    json_set_figure(said, "live_error_share", plan->live_error);
    json_set_number(said, "live_objects", plan->live_objects);
    json_set_number(said, "freed_objects", plan->freed_objects);
    json_set_number(said, "made_objects", plan->made_objects);
    double live = fmax((double)plan->live_objects, 1);
    json_set_figure(said, "matched_by_thread_share", (double)plan->by_thread / live);
    json_set_figure(said, "matched_by_class_share", (double)plan->by_class / live);
    json_set_figure(said, "matched_by_size_share", (double)plan->by_size / live);
    json_set_number(said, "unmatched_freed", plan->unmatched_freed);
    json_set_number(said, "unmatched_made", plan->unmatched_made);
    json_set_number(said, "lasting", plan->lasting);
    return said;
}

// Takes from the trace's totals what can be said of its extension before it is read; nothing was measured there.
static json_t *totals_of(struct ht_trace_reader *reader, const struct loop_plan *plan,
                         struct ht_error *error) {
    json_t *totals = trace_json_read_totals(reader, error);
    if (!totals) return NULL;
    totals_make_unknown(totals, TOTALS_COUNTED | TOTALS_DROPPED | TOTALS_RECORDED);
    json_set_number(totals, "duration_ns", plan->to_ns);
    return totals;
}

static json_t *context_of(struct ht_trace_reader *reader, const char *path, struct ht_error *error) {
    json_t *context = trace_json_read_context(reader, error);
    if (!context) return NULL;
    if (!json_object_get(context, "extended")) return context;
    json_decref(context);
    ht_error_input(error, path, 0, "expected a recording, found a trace that heaptape extend made");
    return NULL;
}

static int digest_of(const char *path, char digest[HT_DIGEST_TEXT_BYTES], struct ht_error *error) {
    return ht_file_sha256(path, digest) ? ht_error_system(error, path, "second reading") : 0;
}

// Takes plan and facts where it returns a reader.
static struct ht_trace_reader *open_planned(struct ht_trace_reader *reader, const char *path, json_t *context,
                                            struct loop_plan *plan, struct ht_trace_facts *facts,
                                            struct ht_error *error) {
    json_t *totals = totals_of(reader, plan, error);
    if (!totals) return NULL;
    char *context_text = json_dumps(context, JSON_COMPACT | HT_JSON_REALS);
    char *totals_text = json_dumps(totals, JSON_COMPACT | HT_JSON_REALS);
    json_decref(totals);
    struct ht_trace_reader *made = NULL;
    if (context_text && totals_text)
        made = looped_trace_open(reader, path, plan, facts, context_text, totals_text, error);
    else ht_error_memory(error, path, "cannot extend the trace");
    if (made) return made;
    free(context_text);
    free(totals_text);
    return NULL;
}

// Plans the repetitions of a stretch that is steady by its windows, and sound by its blocks.
static int plan_stretch(struct ht_trace_reader *reader, const char *path,
                        const struct extension_request *request, const struct ht_trace_facts *facts,
                        struct steady_stretch *stretch, struct loop_plan *plan, struct ht_error *error) {
    struct steady_windows windows;
    if (read_windows(reader, path, request, &windows, error)) return -1;
    int status = -1;
    for (size_t i = 0; i < TRIES && status; i++) {
        struct ht_error later = {0};
        size_t from_window = i ? stretch->first + windows.count / (2 * TRIES) : 0;
        // The first reason is the one to be told: that of the longest stretch.
        struct ht_error *reason = i ? &later : error;
        if (choose_stretch(&windows, path, from_window, request, stretch, reason)) break;
        status = loop_plan_make(reader, path, stretch, facts, request->to_ns, plan, reason);
        if (!status && (status = judge_plan(plan, path, reason))) loop_plan_free(plan);
        if (status && (reason->status != HT_EXIT_UNDECIDED || is_given(request))) {
            *error = *reason;
            break;
        }
    }
    steady_windows_free(&windows);
    return status;
}

struct ht_trace_reader *extension_open(struct ht_trace_reader *reader, const char *path,
                                       const struct extension_request *request, json_t **extended,
                                       struct ht_error *error) {
    struct steady_stretch stretch = {0};
    struct loop_plan plan = {0};
    struct ht_trace_facts facts = {0};
    struct ht_trace_reader *made = NULL;
    char digest[HT_DIGEST_TEXT_BYTES];
    json_t *context = context_of(reader, path, error);
    if (!context) return NULL;
    if (!ht_trace_facts(reader, &facts, error) &&
        !plan_stretch(reader, path, request, &facts, &stretch, &plan, error) &&
        !digest_of(path, digest, error)) {
        json_t *said = describe(path, request, &stretch, &plan, &facts, digest);
        json_object_set(context, "extended", said);
        made = open_planned(reader, path, context, &plan, &facts, error);
        if (made && extended) *extended = json_incref(said);
        json_decref(said);
    }
    json_decref(context);
    loop_plan_free(&plan);
    ht_trace_facts_free(&facts);
    return made;
}

// ---- writing ----

static int put_sites(struct event_copy *copy, struct ht_error *error) {
    struct ht_site_table sites;
    if (ht_trace_site_table(copy->reader, &sites, error)) return -1;
    if (sites.sites_count) ht_trace_put_site_table(copy->writer, &sites);
    ht_site_table_free(&sites);
    return 0;
}

static int put_all(struct event_copy *copy, struct ht_trace_facts *facts, json_t **totals,
                   struct ht_error *error) {
    if (ht_trace_facts(copy->reader, facts, error)) return -1;
    copy->facts = facts;
    if (event_copy_run(copy, error)) return -1;
    event_copy_put_facts(copy);
    if (put_sites(copy, error) || ht_prelude_copy(copy->reader, copy->writer, error)) return -1;
    // Those that the extension has before it is read.
    *totals = json_parsed(ht_trace_totals_json(copy->reader, error));
    if (!*totals)
        return ht_error_memory(error, ht_trace_path(copy->reader), "cannot count the extended trace");
    event_copy_put_totals(copy, *totals);
    return 0;
}

int write_extended(struct ht_trace_reader *reader, const char *output, bool quiet,
                   struct extended_totals *totals, struct ht_error *error) {
    struct event_copy copy = {.reader = reader, .quiet = quiet};
    struct ht_trace_facts facts = {0};
    json_t *json = NULL;
    char *context = ht_trace_context_json(reader, error);
    if (!context) return -1;
    copy.writer = ht_trace_create(output, ht_trace_time_unit_ns(reader), 3, error);
    if (!copy.writer) {
        free(context);
        return -1;
    }
    ht_trace_put_context(copy.writer, context);
    free(context);
    int status = put_all(&copy, &facts, &json, error);
    if (status) ht_trace_abandon(copy.writer);
    else
        status = trace_json_finish(copy.writer, facts.threads, facts.threads_count, json, &totals->file_bytes,
                                   error);
    totals->events = copy.totals.events;
    totals->end_live_bytes = copy.totals.end_live_bytes;
    totals->peak_live_bytes = copy.totals.peak_live_bytes;
    ht_trace_facts_free(&facts);
    return status;
}
