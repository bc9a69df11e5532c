// SPDX-License-Identifier: Apache-2.0
// heaptape slice: a part of a trace, as a trace.
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "json_values.h"
#include "print.h"
#include "slice_prelude.h"
#include "talk.h"
#include "trace_json.h"
#include "trace_slice.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *trace, *output;
    struct trace_range range;
    struct left_out_blocks left_out;
    bool fresh, quiet;
};

enum { KEY_WITHOUT = 256, KEY_ONLY, KEY_FRESH };

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Write the slice to FILE; - is standard output (required)", 0},
    {"without", KEY_WITHOUT, "size=LOW-HIGH,thread=N,born=FROM-TO,live=TIME", 0,
     "Leave out the blocks of these sizes, in bytes, that this thread allocated between these times and that are live at TIME, "
     "with all calls on them; any of the four may be missing (default: none)",
     0},
    {"only", KEY_ONLY, "size=LOW-HIGH,thread=N,born=FROM-TO,live=TIME", 0,
     "Keep only the blocks that --without would leave out (default: all blocks)", 0},
    {"fresh", KEY_FRESH, NULL, 0,
     "Leave out the calls before the slice, which a replay repeats, unmeasured, before it: its blocks then lie in a fresh heap, "
     "without holes",
     0},
    {"quiet", 'q', NULL, 0, "Print only what went wrong", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &options->range; return 0;
    case 'o': options->output = value; return 0;
    case KEY_WITHOUT:
    case KEY_ONLY: {
        if (options->left_out.given) argp_error(state, "expected --without or --only, and once");
        const char *expected = left_out_blocks_parse(value, &options->left_out);
        options->left_out.only = key == KEY_ONLY;
        if (expected) argp_error(state, "--%s %s: %s", key == KEY_ONLY ? "only" : "without", value, expected);
        return 0;
    }
    case KEY_FRESH: options->fresh = true; return 0;
    case 'q': options->quiet = true; return 0;
    case ARGP_KEY_SUCCESS:
        if (!options->output) argp_error(state, "expected -o FILE");
        return 0;
    default: return trace_argument(key, value, state, &options->trace);
    }
}

static const struct argp_child children[] = {{&trace_range_argp, 0, NULL, 0}, {0}};

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "TRACE",
    .doc =
        "Cut a part out of TRACE and write it as a trace."
        "\vBlocks live at its start come first, as inherited ones, with the calls that led to them apart; threads and slots are renumbered, samples and "
        "totals recomputed, and time begins at 0. With --threads, blocks that a left-out thread frees or reallocates end there "
        "without a call, and those that come from a left-out thread are foreign.",
    .children = children};

const struct ht_page ht_page_slice = {
    .name = "slice",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape slice app.bin -o part.bin --from-time 2s --to-time 3s",
             "Cut out a second, with the blocks live at its start"},
            {"heaptape slice app.bin -o workers.bin --threads 3-6", "Cut out the calls of some threads"},
            {"heaptape slice app.bin -o rest.bin --without size=48-64,thread=3",
             "As if these blocks had never been allocated"},
            {"heaptape slice app.bin -o large.bin --only size=1MiB-1GiB", "Only the large blocks"},
            {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "info stats"};

static void show_progress(void *context, uint64_t done, uint64_t total) {
    struct ht_progress *shown = context;
    if (ht_progress_due(shown))
        ht_progress_draw(shown, "%3.0f %%%s", 100.0 * (double)done / (double)total,
                         ht_progress_left(shown, done, total));
}

// The old trace's context, where it is known before the cut is.
static json_t *context_of(struct ht_trace_reader *reader, const struct options *options, const char *word,
                          struct ht_error *error) {
    json_t *context = trace_json_read_context(reader, error);
    if (!context) return NULL;
    const struct trace_range *range = &options->range;
    const char *slash = strrchr(options->trace, '/');
    json_t *cut = json_object();
    json_object_set_new(cut, "trace", trace_json_string(slash ? slash + 1 : options->trace));
    if (range->from_event) json_set_number(cut, "from_event", range->from_event);
    if (range->to_event != UINT64_MAX) json_set_number(cut, "to_event", range->to_event);
    if (range->from_ns) json_set_number(cut, "from_ns", range->from_ns);
    if (range->to_ns != UINT64_MAX) json_set_number(cut, "to_ns", range->to_ns);
    if (range->threads) json_object_set_new(cut, "threads", json_string(range->threads));
    if (options->left_out.given)
        json_object_set_new(cut, options->left_out.only ? "only" : "without",
                            json_string(options->left_out.given));
    // How the trace's own first blocks came to be there is not said by what it begins with, once it is cut.
    if (word) json_object_set_new(context, "prelude", json_string(word));
    // A slice of a slice: what that one was cut from.
    json_t *before = json_object_get(context, "sliced_from");
    if (before) json_object_set(cut, "sliced_from", before);
    // Times of an extension are those before the cut.
    if (json_object_get(context, "extended")) json_object_set_new(cut, "of_extension", json_true());
    json_object_set_new(context, "sliced_from", cut);
    return context;
}

// What is known of the program as a whole, and so of a part as well as can be.
static void keep_samples(json_t *totals, const json_t *old) {
    static const char *const keys[] = {"freed_looked_at", "freed_warm"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(old, keys[i]);
        if (json_is_integer(value)) json_object_set(totals, keys[i], value);
    }
    json_t *damage = json_object_get(old, "damage");
    if (json_is_object(damage)) json_object_set(totals, "damage", damage);
}

// A part of a guess is no better known.
static void keep_unknown_heap(json_t *totals, const json_t *old) {
    uint64_t low_bytes, high_bytes;
    if (trace_json_heap_range(old, &low_bytes, &high_bytes)) trace_json_set_heap_range(totals, 0, high_bytes);
}

// The totals as the converter writes them; what the old trace does not have by event is unknown.
static json_t *totals_of(const struct slice_result *result, const json_t *old) {
    const struct ht_raw_log none = {.fd = -1};
    json_t *totals = trace_json_totals(&result->totals, &none);
    json_object_set_new(totals, "repairs", json_null());
    json_object_set_new(totals, "unfinished", json_null());
    json_object_set_new(totals, "lost_calls", json_null());
    keep_samples(totals, old);
    keep_unknown_heap(totals, old);
    return totals;
}

static void say_result(const char *output, const struct slice_result *result, uint64_t file_bytes) {
    char events[HT_NUMBER_OF_BYTES], size[32], blocks[HT_NUMBER_OF_BYTES], foreign[HT_NUMBER_OF_BYTES];
    const struct merge_totals *totals = &result->totals;
    ht_print(stderr, "%s: %s (%" PRIu64 " to %" PRIu64 " of the old), %s; %s inherited",
             strcmp(output, "-") ? output : "standard output", ht_number_of(events, totals->events, "event"),
             result->first_event, result->end_event - 1, ht_bytes(size, (double)file_bytes),
             ht_number_of(blocks, totals->inherited_objects, "block"));
    if (totals->foreign_frees)
        ht_print(stderr, ", %s", ht_number_of(foreign, totals->foreign_frees, "foreign free"));
    fputc('\n', stderr);
}

static int no_call(struct ht_trace_reader *reader, const struct slice_result *result,
                   struct ht_error *error) {
    errno = 0;
    ht_error_system(error, ht_trace_path(reader), "there is no call in this range");
    // Where the file is cut short, there may have been some.
    if (result->whole_end && ht_trace_truncated(reader)) ht_trace_report_truncated(reader, error);
    return -1;
}

// The slice but for its end. Where writing has failed, finishing the trace reports why.
static int write_parts(struct ht_trace_reader *reader, const struct slice_request *request,
                       const json_t *context, enum slice_prelude prelude, struct ht_trace_writer *writer,
                       struct slice_result *result, struct ht_error *error) {
    if (trace_slice(reader, request, writer, result, error)) return -1;
    if (ht_trace_failed(writer)) return 0;
    if (!result->totals.events) return no_call(reader, result, error);
    return slice_prelude_put(reader, context, prelude, request, result, writer, error);
}

static int write_slice(struct ht_trace_reader *reader, void *given, bool *whole, struct ht_error *error) {
    struct options *options = given;
    struct slice_result result = {0};
    struct ht_progress shown;
    const struct slice_request request = {.path = options->trace,
                                          .range = &options->range,
                                          .left_out = &options->left_out,
                                          .progress = {options->quiet ? NULL : show_progress, &shown}};
    json_t *old_totals = trace_json_read_totals(reader, error), *context = NULL;
    if (!old_totals) return -1;
    enum slice_prelude prelude = slice_prelude_of(reader, old_totals, &request, options->fresh);
    struct ht_trace_writer *writer = NULL;
    if ((context = context_of(reader, options, slice_prelude_word(prelude), error)))
        writer = ht_trace_create(options->output, ht_trace_time_unit_ns(reader), 3, error);
    if (!writer) {
        json_decref(context);
        json_decref(old_totals);
        return -1;
    }
    trace_json_put_context(writer, json_incref(context));
    ht_progress_start(&shown);
    int status = write_parts(reader, &request, context, prelude, writer, &result, error);
    ht_progress_end(&shown);
    *whole = result.whole_end;
    uint64_t file_bytes;
    if (status) ht_trace_abandon(writer);
    else
        status = trace_json_finish(writer, result.threads, result.totals.threads,
                                   totals_of(&result, old_totals), &file_bytes, error);
    json_decref(context);
    json_decref(old_totals);
    slice_result_free(&result);
    if (!status && !options->quiet) say_result(options->output, &result, file_bytes);
    return status;
}

int ht_verb_slice(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_slice, argc, argv, 0, &options);
    if (trace_output_refused("heaptape slice", options.output, options.trace)) return HT_EXIT_USAGE;
    int status = trace_verb("heaptape slice", options.trace, write_slice, &options);
    trace_range_free(&options.range);
    return status;
}
