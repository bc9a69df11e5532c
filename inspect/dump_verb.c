// SPDX-License-Identifier: Apache-2.0
// heaptape dump: one line per event, for eyes and diffs.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control_calls.h"
#include "ops.h"
#include "print.h"
#include "site_words.h"
#include "talk.h"
#include "trace_facts.h"
#include "trace_range.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *trace;
    struct trace_range range;
    bool no_time;
    struct site_words sites;
};

static const struct argp_option option_table[] = {
    {"no-time", 't', NULL, 0, "Leave out the event's number and time, so that two dumps can be compared", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &options->range; return 0;
    case 't': options->no_time = true; return 0;
    default: return trace_argument(key, value, state, &options->trace);
    }
}

static const struct argp_child children[] = {{&trace_range_argp, 0, NULL, 0}, {0}};

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "TRACE",
    .doc =
        "Print every event of TRACE on a line: EVENT TIME_NS tTHREAD CALL. Objects are named by slot, as #N."
        "\vThe first operand of an aligned allocation is the alignment, the second the size. A call whose call site was recorded ends "
        "with the site's number and the nearest function that is no wrapper of an allocator.",
    .children = children};

const struct ht_page ht_page_dump = {
    .name = "dump",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape dump --to-event 100 app.bin", "Print the first hundred calls"},
            {"heaptape dump --no-time --threads 0 app.bin > old.txt", "Print a dump to compare with another"},
            {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "slice stats"};

static void print_object(const char *name, unsigned variant, uint32_t slot) {
    if (variant == HT_NULL) printf("%s(NULL", name);
    else if (variant == HT_PLAIN || variant == HT_RELEASED) printf("%s(#%" PRIu32, name, slot);
    else printf("%s(?", name);
}

static void print_realloc(const struct ht_events *events, uint32_t row, const struct ht_function_info *info,
                          unsigned variant) {
    print_object(info->name, variant, events->slot[row]);
    if (info->extra) printf(", %" PRIu64, events->extra[row]);
    printf(", %" PRIu64 ") = ", events->size[row]);
    if (variant == HT_FAILED) fputs("NULL (failed)", stdout);
    else if (variant == HT_RELEASED) fputs("NULL (released)", stdout);
    else if (variant == HT_FOREIGN) printf("#%" PRIu32 " (foreign)", events->slot[row]);
    else printf("#%" PRIu32, events->slot[row]);
}

static void print_free(const struct ht_events *events, uint32_t row, const struct ht_function_info *info,
                       unsigned variant) {
    print_object(info->name, variant, events->slot[row]);
    if (info->size) printf(", %" PRIu64, events->size[row]);
    if (info->extra) printf(", align %" PRIu64, events->extra[row]);
    fputs(variant == HT_FOREIGN ? ") (foreign)" : ")", stdout);
}

static void print_control(const struct ht_events *events, uint32_t row) {
    const struct ht_control_call call =
        ht_control_of_event(events->op[row], events->size[row], events->extra[row]);
    char text[HT_CONTROL_TEXT_BYTES];
    if (call.number == HT_CTL_MADVISE)
        printf("%s(#%" PRIu32 ", %" PRIu64 ", %" PRIu64 ", %s)", ht_control_symbol(call.number),
               events->slot[row], ht_advice_offset(events->extra[row]), events->size[row],
               ht_advice_name((unsigned)call.first));
    else fputs(ht_control_text(&call, text), stdout);
}

static void print_event(const struct ht_events *events, uint32_t row) {
    uint8_t op = events->op[row];
    unsigned variant = ht_op_variant(op);
    const struct ht_function_info *info = &ht_functions[ht_op_function(op)];
    if (info->kind == HT_KIND_CONTROL || info->kind == HT_KIND_ADVICE) {
        print_control(events, row);
    } else if (info->kind == HT_KIND_REALLOC) {
        print_realloc(events, row, info, variant);
    } else if (info->kind == HT_KIND_FREE || info->kind == HT_KIND_QUERY) {
        print_free(events, row, info, variant);
    } else {
        printf("%s(", info->name);
        if (info->extra) printf("%" PRIu64 ", ", events->extra[row]);
        if (variant == HT_FAILED) printf("%" PRIu64 ") = NULL (failed)", events->size[row]);
        else printf("%" PRIu64 ") = #%" PRIu32, events->size[row], events->slot[row]);
    }
}

// The number, and the function that asked for the block.
static void print_site(const struct site_words *sites, uint32_t site) {
    char text[SITE_TEXT_BYTES];
    printf(" site %" PRIu32, site);
    if (site_words_caller(sites, site, text)) ht_print(stdout, " (%s)", text);
}

// Prints what of the section is wanted. Returns false where the range ends.
static bool dump_section(const struct ht_events *events, const struct options *options) {
    const struct trace_range *range = &options->range;
    for (uint32_t row = 0; row < events->rows; row++) {
        uint64_t event = events->first_event + row, time_ns = events->time_ns[row];
        if (trace_range_over(range, event, time_ns)) return false;
        if (!trace_range_begun(range, event, time_ns) || !trace_range_wants(range, events->thread[row]))
            continue;
        if (!options->no_time) printf("%" PRIu64 " %" PRIu64 " ", event, time_ns);
        printf("t%" PRIu32 " ", events->thread[row]);
        print_event(events, row);
        if (events->site && events->site[row]) print_site(&options->sites, events->site[row]);
        putchar('\n');
    }
    return true;
}

static int dump(struct ht_trace_reader *reader, void *given, bool *whole, struct ht_error *error) {
    struct options *options = given;
    struct ht_trace_facts facts;
    *whole = false;
    if (site_words_read(&options->sites, reader, error)) return -1;
    if (options->range.threads) {
        if (ht_trace_facts(reader, &facts, error)) return -1;
        uint32_t threads = (uint32_t)facts.threads_count;
        ht_trace_facts_free(&facts);
        if (trace_range_know_threads(&options->range, threads, options->trace, error)) return -1;
    }
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (trace_range_section_over(&options->range, reader, i)) return 0;
        if (trace_range_section_before(&options->range, reader, i)) continue;
        if (ht_trace_events(reader, i, &events, error)) return -1;
        if (!dump_section(&events, options)) return 0;  // the range ends before the trace does
    }
    *whole = true;
    return 0;
}

int ht_verb_dump(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_dump, argc, argv, 0, &options);
    int status = trace_verb("heaptape dump", options.trace, dump, &options);
    trace_range_free(&options.range);
    site_words_free(&options.sites);
    return status;
}
