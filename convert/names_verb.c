// SPDX-License-Identifier: Apache-2.0
// heaptape names: looks up the names of a trace's call sites again, where the program's files are.
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "print.h"
#include "site_names.h"
#include "site_table.h"
#include "talk.h"
#include "trace_verb.h"
#include "trace_writer.h"
#include "verbs.h"

struct options {
    const char *trace, *output, *perf_map;
    bool quiet;
};

enum { OPTION_PERF_MAP = 256 };

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Write the trace with its names to FILE; - is standard output (required)", 0},
    {"perf-map", OPTION_PERF_MAP, "FILE", 0,
     "The names of code that a runtime generated: what it left in /tmp/perf-PID.map (default: none)", 0},
    {"quiet", 'q', NULL, 0, "Print only what went wrong", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->output = value; return 0;
    case OPTION_PERF_MAP: options->perf_map = value; return 0;
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
        "Look up functions, files and lines of TRACE's call sites, and write a trace that has them."
        "\vA module's file is taken from where the recorded program had it, if its build id is the recorded one, else from "
        "/usr/lib/debug and the cache of debuginfod. Names that are not found stay as they are in TRACE."};

const struct ht_page ht_page_names = {
    .name = "names",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape names app.bin -o named.bin",
                                          "After a conversion with --no-names"},
                                         {"DEBUGINFOD_URLS=$SERVER heaptape names app.bin -o named.bin",
                                          "With what a server has of the modules"},
                                         {0}},
    .environment =
        (const struct ht_fact[]){
            {"DEBUGINFOD_URLS", "Servers that are asked for debugging information; without it "
                                "nothing is fetched"},
            {"DEBUGINFOD_CACHE_PATH", "Where debuginfod's client keeps what it has fetched"},
            {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "convert stats"};

static void say_result(const char *output, const struct ht_site_table *table) {
    char named[32], all[HT_NUMBER_OF_BYTES];
    ht_print(stderr, "%s: names of %s of %s\n", strcmp(output, "-") ? output : "standard output",
             ht_grouped(named, site_names_count(table)),
             ht_number_of(all, table->locations_count, "location"));
}

static int say_no_sites(const char *trace, struct ht_error *error) {
    snprintf(error->message, sizeof error->message, "%s: no call sites; record with --sites", trace);
    error->status = HT_EXIT_USAGE;
    return -1;
}

// A map that a runtime did not leave is no error where it is only looked for; one that was asked for is.
static int check_perf_map(const char *path, struct ht_error *error) {
    struct stat status;
    errno = 0;
    if (!path) return 0;
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) errno = EISDIR;
    if (errno || access(path, R_OK)) return ht_error_system(error, path, "cannot open");
    return 0;
}

static int add_names(struct ht_trace_reader *reader, void *given, bool *whole, struct ht_error *error) {
    const struct options *options = given;
    (void)whole;
    struct ht_site_table table;
    if (check_perf_map(options->perf_map, error)) return -1;
    if (ht_trace_truncated(reader)) {
        ht_trace_report_truncated(reader, error);
        return -1;
    }
    if (ht_trace_site_table(reader, &table, error)) return -1;
    int status = 0;
    if (!table.sites_count) status = say_no_sites(options->trace, error);
    else if (!site_names_resolve(&table, options->perf_map))
        status = ht_error_memory(error, options->trace, "cannot look up names");
    else status = ht_trace_copy(reader, options->output, &table, NULL, error);
    if (!status && !options->quiet) say_result(options->output, &table);
    ht_site_table_free(&table);
    return status;
}

int ht_verb_names(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_names, argc, argv, 0, &options);
    if (trace_output_refused("heaptape names", options.output, options.trace)) return HT_EXIT_USAGE;
    return trace_verb("heaptape names", options.trace, add_names, &options);
}
