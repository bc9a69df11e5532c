// SPDX-License-Identifier: Apache-2.0
// heaptape info: what a trace holds, from its index and totals.
#include <inttypes.h>
#include <string.h>

#include "call_times.h"
#include "context_words.h"
#include "group_info.h"
#include "json_values.h"
#include "print.h"
#include "talk.h"
#include "trace_json.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *trace;
    bool json;
};

static const struct argp_option option_table[] = {{"json", 'j', NULL, 0, "Print one JSON object", 0}, {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'j': options->json = true; return 0;
    default: return trace_argument(key, value, state, &options->trace);
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "TRACE",
    .doc =
        "Print a summary of TRACE: the program, its calls, its peaks; of a group's trace its processes and its memory. "
        "The calls themselves are not read: heaptape lint finds damage among them."};

const struct ht_page ht_page_info = {
    .name = "info",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape info app.bin", "Print what was recorded"},
                                         {"heaptape info --json app.bin", "The same as JSON"},
                                         {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "stats slice dump"};

static uint64_t number(const json_t *info, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(info, key));
}

static const char *text_of(const json_t *info, const char *key) {
    const char *text = json_string_value(json_object_get(info, key));
    return text ? text : "unknown";
}

static void print_ops(const json_t *info) {
    const char *name;
    json_t *count;
    char text[32];
    json_object_foreach(json_object_get(info, "ops"), name, count)
        ht_print(stdout, "  %-22s %14s\n", name, ht_grouped(text, (uint64_t)json_integer_value(count)));
}

static void print_bytes(const json_t *info, const char *label, const char *key) {
    char text[32];
    json_t *value = json_object_get(info, key);
    if (json_is_integer(value))
        ht_print(stdout, "%-24s %s\n", label, ht_bytes(text, (double)json_integer_value(value)));
    else ht_print(stdout, "%-24s unknown\n", label);
}

static void print_seconds(const json_t *info, const char *label, const char *key) {
    json_t *value = json_object_get(info, key);
    if (json_is_integer(value))
        ht_print(stdout, "%-24s %.3f s\n", label, (double)json_integer_value(value) / 1e9);
    else ht_print(stdout, "%-24s unknown\n", label);
}

static void print_count(const json_t *info, const char *label, const char *key) {
    char text[32];
    json_t *value = json_object_get(info, key);
    if (json_is_integer(value))
        ht_print(stdout, "%-24s %s\n", label, ht_grouped(text, (uint64_t)json_integer_value(value)));
    else ht_print(stdout, "%-24s unknown\n", label);
}

// Whose recording it is, if it is not our own.
static void print_source(const json_t *info, const json_t *context) {
    if (!json_string_value(json_object_get(context, "source_format"))) return;
    ht_print(stdout, "%-24s %s (%s)\n", "imported from", text_of(context, "source"),
             text_of(context, "source_format"));
    if (!strcmp(text_of(context, "time"), "nominal"))
        ht_print(stdout, "%-24s nominal: each call %" PRIu64 " ns after the one before\n", "time",
                 number(info, "time_unit_ns"));
    if (!strcmp(text_of(context, "time"), "ticks"))
        ht_print(stdout,
                 "%-24s ticks: each call %" PRIu64 " ns after the one before, or at the source's next tick\n",
                 "time", number(info, "time_unit_ns"));
    if (!strcmp(text_of(context, "frees"), "assumed"))
        ht_print(stdout, "%-24s assumed: of one size and stack, the block allocated last\n", "frees");
    if (number(info, "skipped")) print_count(info, "skipped on import", "skipped");
}

static void print_swollen(uint64_t heap_bytes, uint64_t live_bytes) {
    char words[HT_HEAP_SWOLLEN_TEXT_BYTES];
    if (live_bytes && ht_heap_is_swollen(heap_bytes, live_bytes))
        ht_print(stdout, "caution: %s\n", ht_heap_swollen_words(words, heap_bytes, live_bytes));
}

static void print_heap(const json_t *info) {
    uint64_t low_bytes, high_bytes;
    char low[32], high[32];
    if (trace_json_heap_range(info, &low_bytes, &high_bytes))
        ht_print(stdout, "%-24s unknown: %s to %s\n", "  in the heap", ht_bytes(low, (double)low_bytes),
                 ht_bytes(high, (double)high_bytes));
    else print_bytes(info, "  in the heap", "recorded_heap_rss_peak_bytes");
}

static void print_controls(const json_t *info) {
    json_t *calls = json_object_get(info, "control_calls");
    const char *name;
    json_t *count;
    char text[32];
    if (calls) ht_print(stdout, "control calls\n");
    json_object_foreach(calls, name, count)
        ht_print(stdout, "  %-28s %8s\n", name, ht_grouped(text, (uint64_t)json_integer_value(count)));
}

static void print_for_people(const json_t *info) {
    const json_t *context = json_object_get(info, "context");
    struct ht_heap_share share = trace_json_heap_share(info);
    share.inside = json_string_value(json_object_get(context, "inner_allocators"));
    char words[HT_HEAP_SHARE_TEXT_BYTES], part[EXTENDED_WORDS_BYTES], left[SHARED_WORDS_BYTES],
        lost[TRACE_DAMAGE_BYTES];
    struct coarsening coarsening;
    struct run_check check;
    char compared[RUN_CHECK_WORDS_BYTES];
    if (ht_heap_share_is_small(&share)) printf("caution: %s\n", ht_heap_share_words(words, &share));
    else print_swollen(number(info, "recorded_heap_rss_peak_bytes"), number(info, "peak_live_bytes"));
    ht_print(stdout, "%-24s %s\n", "command", text_of(info, "command"));
    bool version = json_string_value(json_object_get(context, "allocator_version")) != NULL;
    ht_print(stdout, "%-24s %s%s%s\n", "recorded under", text_of(info, "recorded_allocator"),
             version ? " " : "", version ? text_of(context, "allocator_version") : "");
    print_source(info, context);
    if (json_is_integer(json_object_get(info, "parent_pid")))
        ht_print(stdout, "%-24s process %" PRIu64 "\n", "forked from", number(info, "parent_pid"));
    if (json_string_value(json_object_get(context, "stopped")))
        ht_print(stdout, "%-24s %s\n", "recording stopped", text_of(context, "stopped"));
    if (trace_json_damage(info, lost)) ht_print(stdout, "%-24s %s\n", "log was damaged", lost);
    const json_t *cut = json_object_get(context, "sliced_from");
    if (json_is_object(cut)) ht_print(stdout, "%-24s %s\n", "sliced from", text_of(cut, "trace"));
    if (extended_words(context, part)) {
        ht_print(stdout, "%-24s %s\n", "extended from",
                 text_of(json_object_get(context, "extended"), "trace"));
        ht_print(stdout, "%-24s %s\n", "extrapolated", part);
    }
    if (shared_coarsening(context, &coarsening))
        ht_print(stdout, "%-24s %s\n", "shared copy", shared_words(&coarsening, left));
    print_count(info, "events", "events");
    print_ops(info);
    print_controls(info);
    print_count(info, "threads", "threads");
    print_count(info, "slots", "slots");
    print_bytes(info, "peak live", "peak_live_bytes");
    print_count(info, "peak live objects", "peak_live_objects");
    print_count(info, "live objects at the end", "end_live_objects");
    if (number(info, "inherited_objects")) {
        bool sliced = json_is_object(cut);
        print_count(info, sliced ? "from before the slice" : "inherited objects", "inherited_objects");
        print_bytes(info, sliced ? "  in bytes" : "inherited", "inherited_bytes");
    }
    print_seconds(info, "duration", "duration_ns");
    print_seconds(info, "recorded CPU time", "recorded_cpu_ns");
    print_bytes(info, "recorded peak RssAnon", "recorded_rss_peak_bytes");
    print_heap(info);
    if (run_check_read(context, &check))
        ht_print(stdout, "%-24s %s\n", "with and without recorder", run_check_words(compared, &check));
    print_count(info, "repairs", "repairs");
    print_count(info, "anomalies", "anomalies");
    print_count(info, "foreign frees", "foreign_frees");
    if (number(info, "foreign_queries")) print_count(info, "foreign queries", "foreign_queries");
    print_count(info, "failed calls", "failed_calls");
    if (number(info, "sites")) {
        print_count(info, "call stacks", "sites");
        print_count(info, "  modules", "site_modules");
    }
    print_bytes(info, "file", "file_bytes");
    if (number(info, "events"))
        ht_print(stdout, "%-24s %.3f\n", "bytes per event",
                 json_real_value(json_object_get(info, "bytes_per_event")));
    if (json_is_true(json_object_get(info, "truncated"))) {
        char text[32];
        ht_print(stdout, "%-24s the file is cut short after %s bytes of whole sections\n", "truncated",
                 ht_grouped(text, number(info, "valid_bytes")));
    }
}

static int show(struct ht_trace_reader *reader, void *given, bool *whole, struct ht_error *error) {
    const struct options *options = given;
    char idle[HT_IDLE_ENDS_BYTES];
    json_t *info = trace_json_info(reader, error);
    (void)whole;
    if (!info) return -1;
    if (options->json) {
        json_print(info);
        return 0;
    }
    print_for_people(info);
    if (!ht_trace_truncated(reader) &&
        ht_idle_ends(reader, options->trace, number(info, "duration_ns"), idle))
        ht_print(stdout, "%s\n", idle);
    json_decref(info);
    return 0;
}

static int show_group(struct ht_group_trace *group, const struct options *options, struct ht_error *error) {
    json_t *info = group_info_json(group, error);
    if (!info) return -1;
    if (options->json) {
        json_print(info);
        return 0;
    }
    group_info_print(info);
    json_decref(info);
    return 0;
}

int ht_verb_info(int argc, char **argv) {
    struct options options = {0};
    struct ht_error error;
    ht_page_parse(&ht_page_info, argc, argv, 0, &options);
    struct ht_group_trace *group = ht_group_open(options.trace, &error);
    if (group) {
        int status = show_group(group, &options, &error);
        ht_group_close(group);
        return ht_stdout_status("heaptape info",
                                status ? ht_complain("heaptape info", &error) : HT_EXIT_DONE);
    }
    if (error.status) return ht_complain("heaptape info", &error);
    return trace_verb("heaptape info", options.trace, show, &options);
}
