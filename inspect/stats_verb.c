// SPDX-License-Identifier: Apache-2.0
// heaptape stats: what a program does with its heap.
#include <argp.h>

#include "json_values.h"
#include "option_values.h"
#include "stats_report.h"
#include "talk.h"
#include "trace_json.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *trace;
    bool json;
    uint64_t points;  // 0: not given
};

enum { POINTS_TEXT = 20, POINTS_JSON = 200 };

static const struct argp_option option_table[] = {
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {"points", 'p', "N", 0, "Divide the time into at most N parts (default: 20; 200 with --json)", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'j': options->json = true; return 0;
    case 'p':
        if (!ht_parse_whole(value, 1, STATS_POINTS_MAX, &options->points))
            argp_error(state, "--points %s: expected a whole number from 1 to %d", value, STATS_POINTS_MAX);
        return 0;
    default: return trace_argument(key, value, state, &options->trace);
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "TRACE",
    .doc =
        "Print what the program of TRACE does with its heap: sizes, lifetimes, threads, reallocs, churn."
        "\vLifetimes and quantiles are counted in classes, four to a power of two, and reported by a class's upper "
        "bound."};

const struct ht_page ht_page_stats = {
    .name = "stats",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape stats app.bin", "Print tables"},
                                         {"heaptape stats --json --points 1000 app.bin",
                                          "As JSON, in more steps of time"},
                                         {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "info slice lint"};

// How long the trace is, from its totals; 0 if it has none. Returns 0, or -1 with error.
static int find_duration(struct ht_trace_reader *reader, uint64_t *duration_ns, struct ht_error *error) {
    json_t *totals = trace_json_read_totals(reader, error);
    json_int_t said_ns = json_integer_value(json_object_get(totals, "duration_ns"));
    *duration_ns = said_ns > 0 ? (uint64_t)said_ns : 0;
    json_decref(totals);
    return totals ? 0 : -1;
}

static int report(struct ht_trace_reader *reader, void *given, bool *whole, struct ht_error *error) {
    const struct options *options = given;
    uint32_t points = options->json ? POINTS_JSON : POINTS_TEXT;
    (void)whole;
    if (options->points) points = (uint32_t)options->points;
    uint64_t duration_ns;
    if (find_duration(reader, &duration_ns, error)) return -1;
    json_t *context = trace_json_read_context(reader, error);
    if (!context) return -1;
    struct trace_stats *stats = trace_stats_count(reader, options->trace, points, duration_ns, error);
    if (stats && options->json) {
        json_t *report = stats_report_json(stats, context);
        json_object_set_new(report, "truncated", json_boolean(ht_trace_truncated(reader)));
        json_print(report);
    } else if (stats) {
        stats_report_text(stats, context);
    }
    json_decref(context);
    int status = stats ? 0 : -1;
    trace_stats_free(stats);
    return status;
}

int ht_verb_stats(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_stats, argc, argv, 0, &options);
    return trace_verb("heaptape stats", options.trace, report, &options);
}
