// The one program: heaptape VERB, and replay under its other name.
#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "verbs.h"

// The shim looks for this symbol: our own programs are never what somebody wants to record.
__attribute__((visibility("default"), used)) const int heaptape_is_itself = 1;

struct verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};

static const struct verb verbs[] = {
    {"try", "record a program, replay it, and say what another allocator would change", ht_verb_python},
    {"record", "run a program and record its heap calls", ht_verb_record},
    {"ctl", "pause, resume, stop or query a recording", ht_verb_ctl},
    {"convert", "turn raw logs and other recorders' traces into traces", ht_verb_convert},
    {"info", "say what a trace holds", ht_verb_info},
    {"dump", "print a trace, one line an event", ht_verb_dump},
    {"slice", "cut a part out of a trace", ht_verb_slice},
    {"stats", "say what a program does with its heap", ht_verb_stats},
    {"lint", "look for defects in a trace or a raw log", ht_verb_lint},
    {"replay", "replay a trace against allocators and compare them (also: replay)", ht_verb_replay},
    {"compare", "compare the runs of a results file", ht_verb_python},
    {"report", "write the comparison as one HTML page", ht_verb_python},
    {"export", "write a trace as Parquet tables", ht_verb_python},
    {"fleet", "replay many traces over many machines, and take means over all", ht_verb_python},
    {"tune", "search the knobs of an allocator for a trace", ht_verb_python},
    {"validate", "hold a replay's predictions against the real program", ht_verb_python},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static void print_help(FILE *to) {
    fputs("Usage: heaptape VERB [OPTION...]\n\n"
          "Record a program's heap calls once, replay them against any malloc, and read off\n"
          "which allocator serves that program best in time and in memory.\n\n",
          to);
    for (unsigned i = 0; i < VERBS; i++) fprintf(to, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n  heaptape VERB --help    the options of a verb\n"
          "  heaptape help VERB      the same\n"
          "  heaptape --version      the version\n",
          to);
}

static int print_version(void) {
    puts(argp_program_version);
    return HT_EXIT_DONE;
}

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "-?");
}

static bool is_version(const char *word) { return !strcmp(word, "--version") || !strcmp(word, "-V"); }

// The first word after the verb is the front end's, so that these mean the same with every verb; further on they may belong
// to a program that is to be run.
static int run_verb(const struct verb *verb, int argc, char **argv) {
    static char name[64], help[] = "--help";  // argp prints the name in usage lines
    snprintf(name, sizeof name, "heaptape %s", verb->name);
    if (argc > 1 && is_version(argv[1])) return print_version();
    if (argc > 1 && is_help(argv[1])) argv[1] = help;
    // The Python verbs read their own name from argv.
    if (verb->run != ht_verb_python) argv[0] = name;
    return verb->run(argc, argv);
}

static const struct verb *verb_named(const char *name) {
    for (unsigned i = 0; i < VERBS; i++)
        if (!strcmp(name, verbs[i].name)) return &verbs[i];
    return NULL;
}

static int run_replay(int argc, char **argv) {
    static char help[] = "--help";
    if (argc > 1 && !strcmp(argv[1], "-h")) argv[1] = help;
    return ht_verb_replay(argc, argv);
}

// heaptape help VERB is heaptape VERB --help.
static int print_help_of(char *name) {
    static char help[] = "--help";
    const struct verb *verb = verb_named(name);
    char *words[] = {name, help, NULL};
    if (verb) return run_verb(verb, 2, words);
    fprintf(stderr, "heaptape: there is no verb '%s'\n\n", name);
    print_help(stderr);
    return HT_EXIT_USAGE;
}

int main(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/'), *own_name = slash ? slash + 1 : argv[0];
    argp_err_exit_status = HT_EXIT_USAGE;
    argp_program_version = "heaptape " HEAPTAPE_VERSION;
    if (!strcmp(own_name, "replay")) return run_replay(argc, argv);
    const char *wanted = argc > 1 ? argv[1] : "";
    const struct verb *verb = verb_named(wanted);
    if (verb) return run_verb(verb, argc - 1, argv + 1);
    if (!strcmp(wanted, "help") && argc > 2) return print_help_of(argv[2]);
    if (is_help(wanted) || !strcmp(wanted, "help")) {
        print_help(stdout);
        return HT_EXIT_DONE;
    }
    if (is_version(wanted)) return print_version();
    if (*wanted) fprintf(stderr, "heaptape: there is no verb '%s'\n\n", wanted);
    print_help(stderr);
    return HT_EXIT_USAGE;
}
