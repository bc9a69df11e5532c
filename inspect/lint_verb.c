// SPDX-License-Identifier: Apache-2.0
// heaptape lint: what is wrong, or seems wrong, in a trace or a raw log.
#include <argp.h>
#include <stdlib.h>

#include "convert_request.h"
#include "inheritance.h"
#include "json_values.h"
#include "lint_passes.h"
#include "lint_report.h"
#include "option_values.h"
#include "print.h"
#include "talk.h"
#include "trace_verb.h"
#include "verbs.h"

struct options {
    const char *file;
    bool json;
    uint64_t limit;
};

static const struct argp_option option_table[] = {
    {"json", 'j', NULL, 0, "Print one JSON object", 0},
    {"examples", 'n', "N", 0, "Show at most N examples of each finding (default: 5)", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'j': options->json = true; return 0;
    case 'n':
        if (!ht_parse_whole(value, 0, LINT_EXAMPLES_MAX, &options->limit))
            argp_error(state, "--examples %s: expected a whole number from 0 to %d", value,
                       LINT_EXAMPLES_MAX);
        return 0;
    default: return trace_argument(key, value, state, &options->file);
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "FILE",
    .doc =
        "Look for defects in FILE, a trace or a raw log (.mraw)."
        "\vDefects: live blocks whose address was returned again, blocks freed by another family than they were "
        "allocated by (malloc, new, new[]), sized and aligned frees of another size or alignment than was "
        "requested, alignments that are no power of two, or too small for posix_memalign; in raw logs, which have "
        "the addresses, also double frees, frees inside a live block, and blocks that overlap.\n"
        "For information: foreign frees, failed calls, realloc(p, 0), requests of size 0, calls of aligned_alloc "
        "whose size is no multiple of the alignment, and blocks live at the end."};

const struct ht_page ht_page_lint = {
    .name = "lint",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape lint logs/malloc-footprint.4711.mraw",
                                          "Look for double frees and the like"},
                                         {"heaptape lint --examples 20 app.bin", "Show more of each finding"},
                                         {0}},
    .statuses = (const struct ht_fact[]){{"0", "No defect was found"},
                                         {"1", "Defects were found, or lint failed"},
                                         {"2", "Wrong usage"},
                                         {"3", "The input is damaged, cut short, or of another format"},
                                         {0}},
    .see_also = "stats dump"};

// *cut: the log is damaged, and error says where.
static int check_raw(struct lint *lint, const char *path, bool *cut, struct ht_error *error) {
    struct ht_raw_log log;
    struct ht_progress shown;
    struct ht_raw_damage damage = {0};
    struct merge_progress progress = {convert_show_progress, &shown};
    char warning[INHERITANCE_WARNING_BYTES] = "";
    if (ht_raw_open(&log, path, error)) return -1;
    ht_progress_start(&shown);
    int status = lint_raw(lint, &log, warning, &damage, &progress, error);
    ht_progress_end(&shown);
    if (!status && *warning) ht_print(stderr, "heaptape lint: warning: %s: %s\n", path, warning);
    *cut = !status && damage.places;
    if (*cut) ht_raw_report_damage(&damage, &log, error);
    ht_raw_close(&log);
    return status;
}

// *cut: the trace is truncated, and error says where.
static int check_trace(struct lint *lint, const char *path, bool *cut, struct ht_error *error) {
    struct ht_trace_reader *reader = ht_trace_open(path, error);
    if (!reader) return -1;
    int status = lint_trace(lint, reader, path, error);
    *cut = !status && ht_trace_truncated(reader);
    if (*cut) ht_trace_report_truncated(reader, error);
    ht_trace_close(reader);
    return status;
}

static void print(const struct lint *lint, const struct options *options, bool cut) {
    if (!options->json) {
        lint_report_text(lint, options->file, cut);
        return;
    }
    json_t *report = lint_report_json(lint, options->file);
    json_print(report);
}

int ht_verb_lint(int argc, char **argv) {
    struct options options = {.limit = 5};
    struct ht_error error;
    struct lint lint;
    bool cut = false;
    ht_page_parse(&ht_page_lint, argc, argv, 0, &options);
    bool raw = convert_is_raw_log(options.file);
    if (!lint_init(&lint, raw, options.limit)) {
        ht_print(stderr, "heaptape lint: not enough memory\n");
        return HT_EXIT_FAILED;
    }
    int status =
        raw ? check_raw(&lint, options.file, &cut, &error) : check_trace(&lint, options.file, &cut, &error);
    if (status) {
        status = ht_complain("heaptape lint", &error);
    } else {
        print(&lint, &options, cut);
        fflush(stdout);
        status = cut                   ? ht_complain("heaptape lint", &error)
                 : lint_defects(&lint) ? HT_EXIT_FAILED
                                       : HT_EXIT_DONE;
    }
    lint_free(&lint);
    return ht_stdout_status("heaptape lint", status);
}
