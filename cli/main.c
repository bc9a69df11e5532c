// SPDX-License-Identifier: Apache-2.0
// The one program: heaptape VERB, and replay under its other name.
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator.h"
#include "error.h"
#include "json_values.h"
#include "option_values.h"
#include "print.h"
#include "python_program.h"
#include "talk.h"
#include "verb_page.h"
#include "verbs.h"

// The shim searches this symbol: our own programs are never recorded.
__attribute__((visibility("default"), used)) const int heaptape_is_itself = 1;

// ---- the verbs that are written in Python: finds an interpreter and the package, and becomes them ----

// The verbs that replay take the replayer beside us, unless given otherwise.
static void name_replay(const char *folder) {
    char replay[PATH_MAX];
    int length = snprintf(replay, sizeof replay, "%s/replay", folder);
    if (length < (int)sizeof replay && !access(replay, X_OK)) setenv("HEAPTAPE_REPLAY", replay, 0);
}

static int run_python(int argc, char **argv) {
    static struct ht_python_program python;
    ht_python_find(&python);
    name_replay(python.folder);
    char **arguments = calloc((size_t)argc + HT_PYTHON_WORDS_MAX + 1, sizeof *arguments), **next = arguments;
    if (!arguments) return HT_EXIT_FAILED;
    for (size_t i = 0; python.words[i]; i++) *next++ = python.words[i];
    for (int i = 0; i < argc; i++) *next++ = argv[i];
    execvp(python.interpreter, arguments);
    fprintf(stderr, "heaptape %s: cannot run %s: %s\n", argv[0], python.interpreter, strerror(errno));
    free(arguments);
    return HT_EXIT_FAILED;
}

// ---- the verbs, and the program's own page ----

struct ht_verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    const struct ht_page *page;  // NULL: the verb is written in Python, and has it there
};

// One without a name ends them.
static const struct ht_verb verbs[] = {
    {"try", "show what another allocator would change for a program", run_python, NULL},
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
    {"allocators", "list allocators, add and remove releases", ht_verb_allocators, &ht_page_allocators},
    {"count", "count what a program and its allocator do, by simulation", ht_verb_count, &ht_page_count},
    {"calibrate", "measure this machine's cost of misses and faults", ht_verb_calibrate, &ht_page_calibrate},
    {"compare", "compare the runs of a results file", run_python, NULL},
    {"report", "write the comparison as one HTML page", run_python, NULL},
    {"export", "write a trace as Parquet tables", run_python, NULL},
    {"sites", "show who allocates: call sites, with their figures", run_python, NULL},
    {"diff", "compare two recordings of a program by call site", run_python, NULL},
    {"explain", "show why RSS exceeds the live bytes and what would help", run_python, NULL},
    {"walk", "print what the heap of a running process consists of", ht_verb_walk, &ht_page_walk},
    {"forecast", "predict RSS at a later time under each allocator", run_python, NULL},
    {"fleet", "replay many traces on many machines and print means", run_python, NULL},
    {"bisect", "find the commit that made an allocator worse", run_python, NULL},
    {"tune", "search the knobs of an allocator for a trace", run_python, NULL},
    {"validate", "compare a replay's predictions with the real program", run_python, NULL},
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

static struct ht_fact commands[sizeof verbs / sizeof *verbs];

static const struct ht_page front_end = {
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

// ---- heaptape help --json ----

static json_t *facts(const struct ht_fact *fact) {
    json_t *list = json_array();
    for (; fact && fact->name; fact++)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", fact->name, "help", fact->help));
    return list;
}

static void add_option(json_t *list, const struct argp_option *option, const char *group) {
    bool has_letter = option->key < 0x80;
    json_array_append_new(list,
                          json_pack("{s:s*, s:s, s:s*, s:s, s:s*}", "short",
                                    has_letter ? (char[]){(char)option->key, 0} : NULL, "long", option->name,
                                    "argument", option->arg, "help", option->doc, "group", group));
}

static void add_options(json_t *list, const struct argp_option *option, const char *group) {
    for (; option && option->name; option++) add_option(list, option, group);
}

// Group by group.
static void add_groups(json_t *list, const struct ht_page *page) {
    for (int group = 0; page->groups[group]; group++)
        for (const struct argp_option *option = page->argp->options; option->name; option++)
            if (option->group == group) add_option(list, option, page->groups[group]);
}

static json_t *page_json(const struct ht_page *page) {
    json_t *options = json_array(), *made = json_object();
    const char *doc = page->argp->doc, *notes = strchr(doc, '\v');
    if (page->groups) add_groups(options, page);
    else add_options(options, page->argp->options, NULL);
    for (const struct argp_child *child = page->argp->children; child && child->argp; child++)
        add_options(options, child->argp->options, NULL);
    add_options(options, ht_page_options, NULL);
    json_object_set_new(made, "name", json_string(page->name));
    json_object_set_new(made, "usage", json_words(page->argp->args_doc, '\n'));
    json_object_set_new(made, "description", json_stringn(doc, strcspn(doc, "\v")));
    json_object_set_new(made, "options", options);
    json_object_set_new(made, "notes", json_string(notes ? notes + 1 : ""));
    json_object_set_new(made, "files", facts(page->files));
    json_object_set_new(made, "environment", facts(page->environment));
    json_object_set_new(made, "see_also", json_words(page->see_also, ' '));
    json_object_set_new(made, "examples", facts(page->examples));
    json_object_set_new(made, "statuses", facts(page->statuses));
    return made;
}

// By allocator, built here or not, for completion.
static json_t *knobs_json(void) {
    json_t *made = json_object();
    for (size_t i = 0; ht_allocators[i]; i++) {
        const struct ht_allocator *kind = ht_allocator_named(ht_allocators[i]->name);
        json_t *names = json_array();
        for (const struct ht_knob *knob = kind->knobs; knob && knob->name; knob++)
            json_array_append_new(names, json_string(knob->name));
        json_object_set_new(made, ht_allocators[i]->name, names);
    }
    return made;
}

static void print_json(json_t *made) {
    json_dumpf(made, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(made);
}

// The tables that --help is printed from, one JSON object a line: the program's, with its verbs and the knobs of allocators,
// then each verb's. The Python verbs print theirs (analysis/heaptape/base/verb_parser.py).
static int print_option_tables(void) {
    static char verb[] = "help", option[] = "--json";
    json_t *own = page_json(&front_end), *commands_json = json_array();
    for (size_t i = 0; verbs[i].name; i++)
        json_array_append_new(commands_json,
                              json_pack("{s:s, s:s}", "name", verbs[i].name, "help", verbs[i].summary));
    json_object_set_new(own, "version", json_string(HEAPTAPE_VERSION));
    json_object_set_new(own, "commands", commands_json);
    json_object_set_new(own, "knobs", knobs_json());
    print_json(own);
    for (size_t i = 0; verbs[i].name; i++)
        if (verbs[i].page) print_json(page_json(verbs[i].page));
    int status = ht_stdout_status("heaptape", HT_EXIT_DONE);
    return status ? status : run_python(2, (char *[]){verb, option, NULL});
}

// ---- the command line ----

static int print_help(FILE *out, int status) {
    for (size_t i = 0; verbs[i].name; i++) commands[i] = (struct ht_fact){verbs[i].name, verbs[i].summary};
    ht_page_print(out, &front_end, "heaptape");
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
    for (size_t i = 0; verbs[i].name; i++)
        if (!strcmp(name, verbs[i].name)) return &verbs[i];
    return NULL;
}

static int no_such_verb(const char *name) {
    struct ht_meant meant = {.word = name};
    char words[HT_MEANT_BYTES];
    for (size_t i = 0; verbs[i].name; i++) ht_meant_try(&meant, verbs[i].name);
    ht_print(stderr, "heaptape: there is no verb '%s'%s; heaptape --help lists them\n", name,
             ht_meant_words(&meant, words));
    return HT_EXIT_USAGE;
}

// heaptape help [VERB|--json]
static int help(int argc, char **argv) {
    static char option[] = "--help";
    if (argc < 3) return print_help(stdout, HT_EXIT_DONE);
    if (!strcmp(argv[2], "--json")) return print_option_tables();
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
    ht_page_parse(&front_end, argc, argv, ARGP_IN_ORDER, NULL);
    return print_help(stderr, HT_EXIT_USAGE);
}
