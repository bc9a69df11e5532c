// SPDX-License-Identifier: Apache-2.0
// heaptape share: a copy of a trace that is fit for a public issue.
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "json_values.h"
#include "print.h"
#include "shared_trace.h"
#include "talk.h"
#include "trace_json.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *trace, *output;
    struct coarsening coarsening;
    bool quiet;
};

enum { KEY_COARSEN = 256 };

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Write the copy to FILE; - is standard output (required)", 0},
    {"coarsen", KEY_COARSEN, "sizes=BITS,times=TIME", 0,
     "Round sizes up to BITS significant bits (3: four steps for each power of two, the size classes of jemalloc), "
     "times down to multiples of TIME; one of them or both (default: exact)",
     0},
    {"quiet", 'q', NULL, 0, "Print only what went wrong", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    const char *expected;
    switch (key) {
    case 'o': options->output = value; return 0;
    case KEY_COARSEN:
        if ((expected = coarsening_parse(value, &options->coarsening)))
            argp_error(state, "--coarsen %s: %s", value, expected);
        return 0;
    case 'q': options->quiet = true; return 0;
    case ARGP_KEY_SUCCESS:
        if (!options->output) argp_error(state, "expected -o FILE");
        return 0;
    default: return trace_argument(key, value, state, &options->trace);
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "TRACE",
    .doc =
        "Write a copy of TRACE that is fit to attach to a public issue, and print what it still tells."
        "\vThe copy has the calls, their times, and the process's memory. It has no command line, environment, "
        "host, paths, names of threads, call sites, build ids or date; process and threads have new numbers. "
        "Without --coarsen it replays as TRACE does, call by call. heaptape info shows that it is such a copy."};

const struct ht_page ht_page_share = {
    .name = "share",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape share app.bin -o issue.bin",
                                          "The calls as they were recorded, and no names"},
                                         {"heaptape share app.bin -o issue.bin --coarsen sizes=3,times=1ms",
                                          "And no exact sizes and times"},
                                         {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "info slice convert"};

// Times cannot be finer than the units in which the trace has them, and nominal ones are no times.
static int check_times(struct ht_trace_reader *reader, const json_t *context, uint64_t wanted_ns,
                       struct ht_error *error) {
    const char *time = json_string_value(json_object_get(context, "time"));
    char wanted[SHARED_TIME_BYTES], unit[SHARED_TIME_BYTES];
    errno = 0;
    if (time && strcmp(time, "recorded") != 0)
        return ht_error_system(error, ht_trace_path(reader),
                               "--coarsen times: expected measured times, found %s ones", time);
    if (wanted_ns > ht_trace_time_unit_ns(reader)) return 0;
    return ht_error_system(error, ht_trace_path(reader),
                           "--coarsen times: expected more than the trace's unit of %s, found %s",
                           shared_time(unit, ht_trace_time_unit_ns(reader)), shared_time(wanted, wanted_ns));
}

// A copy of a copy is at least as coarse as that.
static int choose_coarsening(struct ht_trace_reader *reader, struct coarsening *coarsening,
                             struct ht_error *error) {
    struct coarsening before;
    json_t *context = trace_json_read_context(reader, error);
    if (!context) return -1;
    shared_coarsening(context, &before);
    int status = coarsening->time_ns ? check_times(reader, context, coarsening->time_ns, error) : 0;
    json_decref(context);
    if (before.size_bits && (!coarsening->size_bits || before.size_bits < coarsening->size_bits))
        coarsening->size_bits = before.size_bits;
    uint64_t unit_ns = ht_trace_time_unit_ns(reader);
    if (before.time_ns > coarsening->time_ns) coarsening->time_ns = before.time_ns;
    coarsening->time_ns = (coarsening->time_ns + unit_ns - 1) / unit_ns * unit_ns;
    return status;
}

static void say(const char *what, const char *text) { ht_print(stderr, "  %-10s %s\n", what, text); }

static void say_context(const json_t *context) {
    char text[256];
    const char *name = json_string_value(json_object_get(context, "allocator_name")),
               *version = json_string_value(json_object_get(context, "allocator_version")),
               *huge_pages = json_string_value(json_object_get(context, "thp"));
    snprintf(text, sizeof text, "%s%s%s%s%s", name ? name : "unknown", version ? " " : "",
             version ? version : "", huge_pages ? "; transparent huge pages " : "",
             huge_pages ? huge_pages : "");
    say("allocator", text);
}

// What whoever reads the copy learns from it.
static void say_rest(const struct shared_trace *shared) {
    char text[256], number[HT_NUMBER_OF_BYTES], other[32];
    const struct coarsening *coarsening = &shared->coarsening;
    snprintf(text, sizeof text, "%s in their order: function, thread and block of each",
             ht_grouped(number, shared->totals.events));
    say("calls", text);
    if (coarsening->size_bits)
        snprintf(text, sizeof text, "rounded up to %s; alignments exact",
                 ht_number_of(number, coarsening->size_bits, "significant bit"));
    else
        snprintf(text, sizeof text,
                 "exact, so that known texts and structures can be recognized "
                 "(--coarsen sizes=BITS)");
    say("sizes", text);
    uint64_t step_ns = coarsening->time_ns ? coarsening->time_ns : ht_trace_time_unit_ns(shared->reader);
    snprintf(text, sizeof text, "to %s, for %.3f s: pauses and bursts%s", shared_time(number, step_ns),
             (double)shared->duration_ns / 1e9, coarsening->time_ns ? "" : " (--coarsen times=TIME)");
    say("times", text);
    snprintf(text, sizeof text, "%s, with the time of each one's end",
             ht_grouped(number, shared->totals.threads));
    say("threads", text);
    snprintf(text, sizeof text, "%sCPU time of the process, at %s; touched pages of large blocks: %s",
             coarsening->size_bits ? "" : "RSS and ", ht_number_of(number, shared->samples, "moment"),
             ht_grouped(other, shared->large_blocks));
    say("memory", text);
    say_context(shared->context);
}

static void say_result(const char *output, const struct shared_trace *shared) {
    char size[32], number[HT_NUMBER_OF_BYTES];
    ht_print(stderr, "%s: %s, without command line, environment, host, paths, names, call sites, ids, date\n",
             strcmp(output, "-") ? output : "standard output", ht_bytes(size, (double)shared->file_bytes));
    if (shared->unknown_sections)
        ht_print(stderr, "left out: %s unknown to this version\n",
                 ht_number_of(number, shared->unknown_sections, "section"));
    ht_print(stderr, "The copy still tells:\n");
    say_rest(shared);
}

static int share(struct ht_trace_reader *reader, void *given, bool *whole, struct ht_error *error) {
    const struct options *options = given;
    (void)whole;
    struct shared_trace shared = {
        .reader = reader, .coarsening = options->coarsening, .quiet = options->quiet};
    if (ht_trace_truncated(reader)) {
        ht_trace_report_truncated(reader, error);
        return -1;
    }
    if (choose_coarsening(reader, &shared.coarsening, error)) return -1;
    int status = shared_trace_write(&shared, options->output, error);
    if (!status && !options->quiet) say_result(options->output, &shared);
    json_decref(shared.context);
    return status;
}

int ht_verb_share(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_share, argc, argv, 0, &options);
    if (trace_output_refused("heaptape share", options.output, options.trace)) return HT_EXIT_USAGE;
    return trace_verb("heaptape share", options.trace, share, &options);
}
