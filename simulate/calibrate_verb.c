// SPDX-License-Identifier: Apache-2.0
// heaptape calibrate: measures what instructions, misses, page faults and mapping calls cost on this machine, and keeps it for the model.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cost_model.h"
#include "json_values.h"
#include "measure_costs.h"
#include "output_file.h"
#include "print.h"
#include "talk.h"
#include "text_table.h"
#include "verbs.h"

struct options {
    const char *output;
    bool json;
};

static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Store the result in FILE instead, which no other command reads; -: print it",
     0},
    {"json", 'j', NULL, 0, "Print one JSON object instead of the table", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->output = value; return 0;
    case 'j': options->json = true; return 0;
    case ARGP_KEY_ARG: argp_error(state, "%s: expected no argument", value); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "",
    .doc =
        "Measure for a few seconds what an instruction, a miss of each cache and TLB, a page fault and a call that "
        "maps memory cost on this machine, and store it: heaptape count and replay --pass count compute times from their "
        "counts by it."
        "\vA latency is the time of one such event that nothing overlaps; the cost is what it takes among calls of malloc, while "
        "the processor does other work; the share is their ratio."};

const struct ht_page ht_page_calibrate = {
    .name = "calibrate",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape calibrate", "Measure this machine once"},
                                         {"heaptape calibrate --json", "The same, as JSON"},
                                         {0}},
    .files = (const struct ht_fact[]){{"$XDG_CACHE_HOME/heaptape/calibration.json",
                                       "The result; without XDG_CACHE_HOME in ~/.cache"},
                                      {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "count replay"};

static void print_table(const struct ht_calibration *calibration) {
    static struct ht_text_table table = {.alignments = "lrrrr"};
    char text[4][48];
    ht_print(stdout, "%s, %.2f GHz\n\n", calibration->processor, 1 / calibration->cycle_ns);
    ht_table_add(&table, (const char *const[]){"", "latency [ns]", "share", "cost [ns]", "96 % interval"});
    for (int i = 0; i < HT_COSTS; i++) {
        const struct ht_cost_kind *kind = &ht_cost_kinds[i];
        const struct ht_median *cost = &calibration->cost[i];
        snprintf(text[0], sizeof text[0], "%.3g", calibration->latency[i].ns);
        snprintf(text[1], sizeof text[1], "%.2g", ht_cost_share(calibration, i));
        snprintf(text[2], sizeof text[2], "%.3g", cost->ns);
        snprintf(text[3], sizeof text[3], "%.3g to %.3g", cost->low_ns, cost->high_ns);
        ht_table_add(&table, (const char *const[]){kind->name, text[0], text[1], text[2], text[3]});
    }
    ht_table_print(stdout, &table);
}

// The folders of a path that are not there yet.
static void make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);  // what goes wrong shows when the file is made
        *slash = '/';
    }
}

static int complain(const char *what, const char *problem) {
    ht_print(stderr, "heaptape calibrate: %s: %s: %s\n", what, problem, strerror(errno));
    return HT_EXIT_FAILED;
}

static int calibrate(char *path, const struct options *options) {
    struct ht_calibration calibration;
    struct output_file file;
    if (!options->output) make_folders(path);
    if (output_file_open(&file, path)) return complain(path, "cannot create");
    if (!ht_measure_costs(&calibration)) {
        output_file_abandon(&file);
        return complain("this machine", "nothing could be measured");
    }
    json_t *json = ht_calibration_json(&calibration);
    const char *problem = json_dumpfd(json, file.fd, JSON_INDENT(1) | HT_JSON_REALS)
                              ? "cannot write"
                              : output_file_finish(&file);
    if (problem) {
        complain(path, problem);
        output_file_abandon(&file);
    }
    if (options->json) json_dumpf(json, stdout, JSON_INDENT(1) | HT_JSON_REALS), putchar('\n');
    else if (strcmp(path, "-")) print_table(&calibration);
    json_decref(json);
    return ht_stdout_status("heaptape calibrate", problem ? HT_EXIT_FAILED : HT_EXIT_DONE);
}

int ht_verb_calibrate(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_calibrate, argc, argv, 0, &options);
    char *path = options.output ? strdup(options.output) : ht_calibration_path();
    if (!path) {
        ht_print(stderr, "heaptape calibrate: neither XDG_CACHE_HOME nor HOME is set: expected -o FILE\n");
        return HT_EXIT_USAGE;
    }
    int status = calibrate(path, &options);
    free(path);
    return status;
}
