// SPDX-License-Identifier: Apache-2.0
// The one program: heaptape VERB, and replay under its other name.
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "front_end.h"
#include "option_values.h"
#include "print.h"
#include "talk.h"
#include "verbs.h"

// The shim searches this symbol: our own programs are never recorded.
__attribute__((visibility("default"), used)) const int heaptape_is_itself = 1;

const struct ht_verb ht_verbs[] = {
    {"try", "show what another allocator would change for a program", ht_verb_python, NULL},
    {"record", "run a program and record its heap calls", ht_verb_record, &ht_page_record},
    {"ctl", "pause, resume, stop or query a recording", ht_verb_ctl, &ht_page_ctl},
    {"convert", "convert raw logs and other recorders' traces to traces", ht_verb_convert, &ht_page_convert},
    {"names", "look up the names of a trace's call sites", ht_verb_names, &ht_page_names},
    {"info", "print a summary of a trace", ht_verb_info, &ht_page_info},
    {"dump", "print a trace, one line per event", ht_verb_dump, &ht_page_dump},
    {"slice", "cut a part out of a trace", ht_verb_slice, &ht_page_slice},
    {"extend", "continue a trace to a later time", ht_verb_extend, &ht_page_extend},
    {"share", "copy a trace without what names the program", ht_verb_share, &ht_page_share},
    {"stats", "print what a program does with its heap", ht_verb_stats, &ht_page_stats},
    {"lint", "look for defects in a trace or a raw log", ht_verb_lint, &ht_page_lint},
    {"replay", "replay a trace against allocators and compare them", ht_verb_replay, &ht_page_replay},
    {"allocators", "list the allocators that there are, add and remove releases", ht_verb_allocators,
     &ht_page_allocators},
    {"count", "count what a program and its allocator do, by simulation", ht_verb_count, &ht_page_count},
    {"calibrate", "measure this machine's cost of misses and faults", ht_verb_calibrate, &ht_page_calibrate},
    {"compare", "compare the runs of a results file", ht_verb_python, NULL},
    {"report", "write the comparison as one HTML page", ht_verb_python, NULL},
    {"export", "write a trace as Parquet tables", ht_verb_python, NULL},
    {"sites", "show who allocates: call sites, with their figures", ht_verb_python, NULL},
    {"diff", "compare two recordings of a program by call site", ht_verb_python, NULL},
    {"explain", "show why RSS exceeds the live bytes and what would help", ht_verb_python, NULL},
    {"walk", "print what the heap of a running process consists of", ht_verb_walk, &ht_page_walk},
    {"forecast", "predict RSS at a later time under each allocator", ht_verb_python, NULL},
    {"fleet", "replay many traces on many machines and print means", ht_verb_python, NULL},
    {"bisect", "find the commit that made an allocator worse", ht_verb_python, NULL},
    {"tune", "search the knobs of an allocator for a trace", ht_verb_python, NULL},
    {"validate", "compare a replay's predictions with the real program", ht_verb_python, NULL},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    (void)key, (void)value, (void)state;
    return ARGP_ERR_UNKNOWN;
}

static const struct argp parser = {
    .parser = parse_option,
    .args_doc = "VERB [ARGUMENT...]\nhelp VERB\nhelp --json",
    .doc =
        "Record a program's heap calls once, replay them against any malloc, and compare which allocator serves that "
        "program best in time and in memory."
        "\vheaptape VERB --help and heaptape help VERB print the options of a verb. heaptape help --json prints the "
        "option tables, one JSON object per verb and line; man pages, completion and the reference are generated from "
        "them. The command replay is the same as heaptape replay."};

static struct ht_fact commands[sizeof ht_verbs / sizeof *ht_verbs];

const struct ht_page ht_page_front_end = {
    .name = "",
    .argp = &parser,
    .commands = commands,
    .examples =
        (const struct ht_fact[]){
            {"heaptape try -- ./app", "From a program to the answer in one command"},
            {"heaptape record -o logs -- ./app", "Or step by step: a log for each process,"},
            {"heaptape convert logs/malloc-footprint.4711.mraw -o app.bin", "a trace,"},
            {"heaptape replay --alloc all app.bin -o results.jsonl", "a comparison,"},
            {"heaptape report results.jsonl -o report.html", "and an HTML page of it"},
            {0}},
    .files = (const struct ht_fact[]){{"libmalloc_wrap.so", "The recorder, which record preloads"}, {0}},
    .environment =
        (const struct ht_fact[]){
            {"HEAPTAPE_PYTHON",
             "The interpreter for replay's verdicts and for the verbs in Python: try, compare, report, export, sites, diff, explain, forecast, fleet, bisect, tune, validate "
             "(default: .venv beside the build, else python3)"},
            {"HEAPTAPE_REPLAY", "The replayer of those verbs (default: the one beside heaptape)"},
            {"COLUMNS", "The width of tables and help (default: the terminal's)"},
            {"NO_COLOR", "If set and not empty, nothing is coloured"},
            {"LC_ALL", "C or POSIX: ASCII only is printed"},
            {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "try record replay"};

static int print_help(FILE *out, int status) {
    for (size_t i = 0; ht_verbs[i].name; i++)
        commands[i] = (struct ht_fact){ht_verbs[i].name, ht_verbs[i].summary};
    ht_page_print(out, &ht_page_front_end, "heaptape");
    return out == stdout ? ht_stdout_status("heaptape", status) : status;
}

static int run_verb(const struct ht_verb *verb, int argc, char **argv) {
    static char name[64];  // argp prints it in messages
    snprintf(name, sizeof name, "heaptape %s", verb->name);
    // The Python verbs read their own name from argv.
    if (verb->page) argv[0] = name;
    return verb->run(argc, argv);
}

static const struct ht_verb *verb_named(const char *name) {
    for (size_t i = 0; ht_verbs[i].name; i++)
        if (!strcmp(name, ht_verbs[i].name)) return &ht_verbs[i];
    return NULL;
}

static int no_such_verb(const char *name) {
    struct ht_meant meant = {.word = name};
    char words[HT_MEANT_BYTES];
    for (size_t i = 0; ht_verbs[i].name; i++) ht_meant_try(&meant, ht_verbs[i].name);
    ht_print(stderr, "heaptape: there is no verb '%s'%s; heaptape --help lists them\n", name,
             ht_meant_words(&meant, words));
    return HT_EXIT_USAGE;
}

// heaptape help [VERB|--json]
static int help(int argc, char **argv) {
    static char option[] = "--help";
    if (argc < 3) return print_help(stdout, HT_EXIT_DONE);
    if (!strcmp(argv[2], "--json")) return ht_print_option_tables();
    const struct ht_verb *verb = verb_named(argv[2]);
    return verb ? run_verb(verb, 2, (char *[]){argv[2], option, NULL}) : no_such_verb(argv[2]);
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/'), *own_name = slash ? slash + 1 : argv[0];
    argp_err_exit_status = HT_EXIT_USAGE;
    argp_program_version = "heaptape " HEAPTAPE_VERSION;
    if (!strcmp(own_name, "replay")) return run_verb(verb_named("replay"), argc, argv);
    if (argc < 2) return print_help(stderr, HT_EXIT_USAGE);
    const char *wanted = argv[1];
    const struct ht_verb *verb = verb_named(wanted);
    if (verb) return run_verb(verb, argc - 1, argv + 1);
    if (!strcmp(wanted, "help")) return help(argc, argv);
    if (!strcmp(wanted, "-h") || !strcmp(wanted, "--help")) return print_help(stdout, HT_EXIT_DONE);
    if (*wanted != '-') return no_such_verb(wanted);
    ht_page_parse(&ht_page_front_end, argc, argv, ARGP_IN_ORDER, NULL);
    return print_help(stderr, HT_EXIT_USAGE);
}
