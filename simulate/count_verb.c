// SPDX-License-Identifier: Apache-2.0
// heaptape count: runs a program under simulation and prints what it and its allocator did.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cost_model.h"
#include "json_values.h"
#include "output_file.h"
#include "print.h"
#include "simulation.h"
#include "talk.h"
#include "text_table.h"
#include "verbs.h"

// As of env(1) and timeout(1): our own failures are none of the program's statuses.
enum { EXIT_COUNT_FAILED = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_BY_SIGNAL = 128 };

struct options {
    const char *output;
    bool instructions_alone, real_clock, quiet;
    int command_at;
};

enum { KEY_REAL_CLOCK = 0x100 };
static const struct argp_option option_table[] = {
    {"output", 'o', "FILE", 0, "Write the counts of all processes into FILE, as JSON", 0},
    {"instructions", 'i', NULL, 0, "Count only instructions, without caches, TLBs and page faults: faster",
     0},
    {"real-clock", KEY_REAL_CLOCK, NULL, 0,
     "Let the program read the machine's clocks and random numbers (default: time passes with instructions, random "
     "numbers are always the same, so that counts repeat)",
     0},
    {"quiet", 'q', NULL, 0, "Print no table", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->output = value; return 0;
    case 'i': options->instructions_alone = true; return 0;
    case KEY_REAL_CLOCK: options->real_clock = true; return 0;
    case 'q': options->quiet = true; return 0;
    case ARGP_KEY_ARG:
        options->command_at = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "expected PROGRAM"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "-- PROGRAM [ARGUMENT...]",
    .doc =
        "Run PROGRAM under simulation (valgrind, 20 to 100 times slower) and print exact counts: instructions, "
        "misses of the caches and TLBs, page faults; each within calls of the allocator, in the dynamic loader, and in the rest. "
        "LD_PRELOAD chooses the allocator."
        "\vThe caches are those of this processor. The exit status is the program's; 125: it could not be counted, 126: it "
        "cannot be run, 127: it is not found."};

const struct ht_page ht_page_count = {
    .name = "count",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape count -- ./app", "Count the program's and malloc's instructions and misses"},
            {"LD_PRELOAD=libjemalloc.so.2 heaptape count -- ./app", "The same under jemalloc"},
            {"heaptape count -i -o counts.json -- ./app", "Only instructions"},
            {0}},
    .statuses = (const struct ht_fact[]){{"0 to 124", "The program's own"},
                                         {"125", "The program could not be counted"},
                                         {"126", "The program cannot be run"},
                                         {"127", "The program is not found"},
                                         {"128 + N", "Signal N ended the program"},
                                         {0}},
    .see_also = "validate replay"};

static _Noreturn void become(const struct ht_simulation_words *words, char **program) {
    ht_simulation_exec(words, program);
    ht_print(stderr, "heaptape count: cannot run valgrind: %s\n", strerror(errno));
    _exit(EXIT_COUNT_FAILED);
}

// Ctrl-C is the program's: its counts up to then are printed.
static int run(const struct ht_simulation_words *words, char **program) {
    struct sigaction ignored = {.sa_handler = SIG_IGN}, interrupt, quit;
    int status = 0;
    sigaction(SIGINT, &ignored, &interrupt);
    sigaction(SIGQUIT, &ignored, &quit);
    signal(SIGCHLD, SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        sigaction(SIGINT, &interrupt, NULL);
        sigaction(SIGQUIT, &quit, NULL);
        become(words, program);
    }
    if (child < 0) return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

static const char *const parts[][2] = {
    {"allocator", "allocator"}, {"program", "program"}, {"loader", "dynamic loader"}};
enum { PARTS = sizeof parts / sizeof *parts };

static void print_process(const json_t *process, const struct ht_cost_model *model) {
    static struct ht_text_table table, costs;
    ht_print(stderr, "\nprocess %" JSON_INTEGER_FORMAT ": %s\n",
             json_integer_value(json_object_get(process, "pid")),
             json_string_value(json_object_get(process, "command")));
    ht_counts_table_begin(&table, "");
    ht_cost_table_begin(&costs);
    for (size_t i = 0; i < PARTS; i++) {
        const json_t *part = json_object_get(process, parts[i][0]);
        ht_counts_table_add(&table, parts[i][1], part);
        ht_cost_table_add(&costs, parts[i][1], part);
    }
    ht_table_print(stderr, &table);
    if (json_is_false(json_object_get(process, "simulated"))) return;
    fputc('\n', stderr);
    ht_cost_table_print(stderr, &costs, model);
}

static const char CANNOT_CREATE[] = "cannot create";

static int complain(const char *path, const char *what) {
    ht_print(stderr, "heaptape count: %s: %s: %s\n", path, what, strerror(errno));
    return -1;
}

// 0, or -1 with a line on stderr.
static int write_json(const char *path, const json_t *counts) {
    struct output_file file;
    const char *what = CANNOT_CREATE;
    if (!output_file_open(&file, path)) {
        what = json_dumpfd(counts, file.fd, JSON_INDENT(1) | HT_JSON_REALS) ? "cannot write"
                                                                            : output_file_finish(&file);
        if (what) output_file_abandon(&file);
    }
    return what ? complain(path, what) : 0;
}

static json_t *with_processor(json_t *processes, const struct ht_cost_model *model) {
    struct ht_geometry geometry;
    char text[HT_GEOMETRY_TEXT_BYTES];
    ht_geometry_read(&geometry);
    return json_pack("{s:i, s:s, s:b, s:b, s:b, s:o, s:o}", "schema", 1, "geometry",
                     ht_geometry_text(text, &geometry.size), "caches_known", geometry.caches_known,
                     "tlbs_known", geometry.tlbs_known, "calibrated", model->measured, "calibration",
                     ht_calibration_json(&model->calibration), "processes", processes);
}

int ht_verb_count(int argc, char **argv) {
    struct options options = {0};
    static struct ht_simulation_words words;
    const char *problem;
    ht_page_parse(&ht_page_count, argc, argv, ARGP_IN_ORDER, &options);
    if (options.output && output_file_check(options.output)) {
        complain(options.output, CANNOT_CREATE);
        return EXIT_COUNT_FAILED;
    }
    char *folder = ht_counts_folder(), *pattern = folder ? ht_counts_pattern(folder) : NULL;
    struct ht_simulation simulation = {
        .caches = !options.instructions_alone, .real_clock = options.real_clock, .out = pattern};
    if (!pattern) {
        ht_print(stderr, "heaptape count: cannot create a temporary folder: %s\n", strerror(errno));
        return EXIT_COUNT_FAILED;
    }
    if (!ht_simulation_prepare(&words, &simulation, &problem)) {
        json_decref(ht_counts_collect(folder, pattern));
        ht_print(stderr, "heaptape count: %s\n", problem);
        return EXIT_COUNT_FAILED;
    }
    int status = run(&words, argv + options.command_at);
    json_t *processes = ht_counts_collect(folder, pattern), *process;
    struct ht_cost_model model;
    size_t i;
    ht_cost_model_read(&model);
    json_array_foreach(processes, i, process) {
        for (size_t k = 0; k < PARTS; k++) ht_add_modelled(&model, json_object_get(process, parts[k][0]));
        if (!options.quiet) print_process(process, &model);
    }
    bool none = !json_array_size(processes);
    // Valgrind has said so itself where it cannot run the program.
    bool ran =
        !WIFEXITED(status) || WEXITSTATUS(status) < EXIT_CANNOT_RUN || WEXITSTATUS(status) > EXIT_NOT_FOUND;
    if (none && ran) ht_print(stderr, "heaptape count: no process left counts\n");
    json_t *all = with_processor(processes, &model);
    int failed = options.output ? write_json(options.output, all) : 0;
    json_decref(all);
    if (failed || (none && WIFEXITED(status) && !WEXITSTATUS(status))) return EXIT_COUNT_FAILED;
    return WIFSIGNALED(status) ? EXIT_BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}
