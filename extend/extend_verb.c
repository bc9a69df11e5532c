// SPDX-License-Identifier: Apache-2.0
// heaptape extend: a trace continued to a later time.
#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "context_words.h"
#include "extension.h"
#include "json_values.h"
#include "option_values.h"
#include "print.h"
#include "talk.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *trace, *output;
    struct extension_request request;
    bool quiet, json;
};

enum { KEY_TO = 256, KEY_FROM, KEY_UNTIL };

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0,
     "Write the extended trace to FILE (default: none is written; only what would be repeated is shown)", 0},
    {"to", KEY_TO, "TIME", 0, "Continue up to TIME since the trace's start, such as 24h (required)", 0},
    {"from", KEY_FROM, "TIME", 0, "Repeat the stretch that begins at TIME (default: the longest steady one)",
     0},
    {"until", KEY_UNTIL, "TIME", 0,
     "Repeat the stretch that ends at TIME or shortly before it (default: "
     "the longest steady one)",
     0},
    {"json", 'j', NULL, 0, "Print what is repeated as one JSON object", 0},
    {"quiet", 'q', NULL, 0, "Print only what went wrong", 0},
    {0}};

static uint64_t parse_time(const char *text, const char *option, struct argp_state *state) {
    uint64_t ns;
    if (ht_parse_duration(text, &ns)) return ns;
    argp_error(state, "%s %s: expected a time such as 90s or 24h", option, text);
    return 0;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    struct extension_request *request = &options->request;
    switch (key) {
    case 'o': options->output = value; return 0;
    case KEY_TO:
        request->to_ns = parse_time(value, "--to", state);
        if (!request->to_ns) argp_error(state, "--to %s: expected a time after the recording", value);
        return 0;
    case KEY_FROM: request->from_ns = parse_time(value, "--from", state); return 0;
    case KEY_UNTIL: request->until_ns = parse_time(value, "--until", state); return 0;
    case 'j': options->json = true; return 0;
    case 'q': options->quiet = true; return 0;
    case ARGP_KEY_SUCCESS:
        if (!request->to_ns) argp_error(state, "expected --to TIME");
        if (request->from_ns != UINT64_MAX && request->from_ns >= request->until_ns)
            argp_error(state, "expected --from before --until");
        if (options->json && options->output && !strcmp(options->output, "-"))
            argp_error(state, "expected -o FILE with --json, which prints on standard output");
        return 0;
    default: return trace_argument(key, value, state, &options->trace);
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "TRACE",
    .doc =
        "Continue TRACE up to a later time by repeating a steady stretch of it, and write that as a trace."
        "\vIn each repetition, blocks that the last one left take the place of those that it frees, of the same size, thread and "
        "rank of age, so that live bytes stay what they were, or grow as they did where that is shown. Where the load is not "
        "steady, nothing is written. All figures behind the recording are extrapolations; no RSS was measured there."};

const struct ht_page ht_page_extend = {
    .name = "extend",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape extend app.bin --to 24h", "Show which stretch would be repeated, and why"},
            {"heaptape extend app.bin --to 24h -o day.bin", "Continue a recording of some minutes to a day"},
            {"heaptape extend app.bin --from 60s --until 180s --to 1h -o hour.bin", "Choose the stretch"},
            {"heaptape replay --extend 24h app.bin", "Replay a day without writing it"},
            {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES,
                                         {"5", "The load is not steady, or the recording too short to say"},
                                         {0}},
    .see_also = "replay slice info"};

static double figure(const json_t *said, const char *key) {
    return json_number_value(json_object_get(said, key));
}

// The stretch alone is the result where no trace is.
static void say_stretch(const json_t *said, const struct options *options) {
    FILE *out = options->output ? stderr : stdout;
    char from[EXTENDED_TIME_BYTES], until[EXTENDED_TIME_BYTES], to[EXTENDED_TIME_BYTES],
        freed[HT_NUMBER_OF_BYTES], made[32], without[HT_NUMBER_OF_BYTES], live[32];
    uint64_t from_ns = (uint64_t)figure(said, "from_ns"), until_ns = (uint64_t)figure(said, "until_ns");
    ht_print(out, "steady from %s to %s%s: %s\n", extended_time(from, from_ns),
             extended_time(until, until_ns), json_is_true(json_object_get(said, "given")) ? " (given)" : "",
             json_string_value(json_object_get(said, "why")));
    ht_print(out, "repeated %s, up to %s\n", ht_number_of(without, (uint64_t)figure(said, "loops"), "time"),
             extended_time(to, options->request.to_ns));
    ht_print(out, "each repetition frees %s from before it, and leaves %s behind it",
             ht_number_of(freed, (uint64_t)figure(said, "freed_objects"), "block"),
             ht_grouped(made, (uint64_t)figure(said, "made_objects")));
    uint64_t alone = (uint64_t)(figure(said, "unmatched_freed") + figure(said, "unmatched_made"));
    if (alone) ht_print(out, "; without a partner: %s of them", ht_grouped(without, alone));
    fputc('\n', out);
    char low[32], high[32];
    ht_print(out, "live at the end: %s; from what was recorded, between %s and %s cannot be excluded\n",
             ht_bytes(live, figure(said, "live_to_bytes")), ht_bytes(low, figure(said, "live_to_low_bytes")),
             ht_bytes(high, figure(said, "live_to_high_bytes")));
    char left_out[EXTENDED_LEFT_OUT_BYTES];
    if (extended_left_out(said, left_out)) ht_print(out, "%s\n", left_out);
}

static int extend(const struct options *options, struct ht_trace_reader **reader, struct ht_error *error) {
    json_t *said = NULL;
    struct extended_totals totals = {0};
    char events[HT_NUMBER_OF_BYTES], size[32];
    if (ht_trace_truncated(*reader)) {
        ht_trace_report_truncated(*reader, error);
        return -1;
    }
    struct ht_trace_reader *extended =
        extension_open(*reader, options->trace, &options->request, &said, error);
    if (!extended) return -1;
    *reader = extended;
    if (!options->quiet && !options->json) say_stretch(said, options);
    if (options->json) json_print(said);
    else json_decref(said);
    if (!options->output) return 0;
    if (write_extended(extended, options->output, options->quiet, &totals, error)) return -1;
    if (!options->quiet)
        ht_print(stderr, "%s: %s, %s\n", strcmp(options->output, "-") ? options->output : "standard output",
                 ht_number_of(events, totals.events, "event"), ht_bytes(size, (double)totals.file_bytes));
    return 0;
}

int ht_verb_extend(int argc, char **argv) {
    struct options options = {.request = {.from_ns = UINT64_MAX, .until_ns = UINT64_MAX}};
    struct ht_error error = {0};
    ht_page_parse(&ht_page_extend, argc, argv, 0, &options);
    if (options.output && trace_output_refused("heaptape extend", options.output, options.trace))
        return HT_EXIT_USAGE;
    struct ht_trace_reader *reader = ht_trace_open(options.trace, &error);
    if (!reader) return ht_complain("heaptape extend", &error);
    int status = extend(&options, &reader, &error);
    ht_trace_close(reader);
    return ht_stdout_status("heaptape extend",
                            status ? ht_complain("heaptape extend", &error) : HT_EXIT_DONE);
}
