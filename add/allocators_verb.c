// SPDX-License-Identifier: Apache-2.0
// heaptape allocators: what can be replayed under, built in or added by the user, and add and remove for the latter.
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "added_allocators.h"
#include "adding.h"
#include "print.h"
#include "talk.h"
#include "verbs.h"

static const char program[] = "heaptape allocators";

enum key { KEY_JSON = 256, KEY_NAME, KEY_BUILD };
enum action { LIST, ADD, REMOVE };

struct options {
    enum action action;
    const char *operand, *name;
    bool json, verbose, build;
};

static const struct argp_option option_table[] = {
    {"name", KEY_NAME, "NAME@VERSION", 0,
     "With add: call it so, such as mimalloc@3.6.0; needed where neither the library nor its package says the version, which else "
     "the name must begin with: mimalloc@3.6.0-patched (default: as it is)",
     0},
    {"build", KEY_BUILD, NULL, 0,
     "With add: FILE is a source archive or a .crate; run the compiler, and what the sources bring for it, and add what is made: "
     "mimalloc, jemalloc, rpmalloc, snmalloc, hardened_malloc",
     0},
    {"json", KEY_JSON, NULL, 0,
     "Print the list as JSON, with all facts about each, as heaptape replay --list --json does", 0},
    {"verbose", 'v', NULL, 0, "Print all facts about each in the list, as heaptape replay --list -v does", 0},
    {0}};

static void take_operand(struct options *options, char *word, struct argp_state *state) {
    static const char *const actions[] = {[ADD] = "add", [REMOVE] = "remove"};
    if (state->arg_num == 0) {
        for (enum action i = ADD; i <= REMOVE; i++)
            if (!strcmp(word, actions[i])) options->action = i;
        if (options->action == LIST) argp_error(state, "%s: expected add FILE or remove NAME@VERSION", word);
    } else if (state->arg_num == 1) {
        options->operand = word;
    } else {
        argp_error(state, "%s: expected one operand", word);
    }
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case KEY_JSON: options->json = true; return 0;
    case KEY_BUILD: options->build = true; return 0;
    case 'v': options->verbose = true; return 0;
    case KEY_NAME: options->name = value; return 0;
    case ARGP_KEY_ARG: take_operand(options, value, state); return 0;
    case ARGP_KEY_END:
        if (options->action == ADD && !options->operand) argp_error(state, "add: expected FILE");
        if (options->action == REMOVE && !options->operand)
            argp_error(state, "remove: expected NAME@VERSION");
        if ((options->name || options->build) && options->action != ADD)
            argp_error(state, "--name, --build: expected add FILE");
        if ((options->json || options->verbose) && options->action != LIST)
            argp_error(state, "--json, --verbose: expected neither add nor remove");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "[add|remove FILE|ALLOCATOR]",
    .doc =
        "List the allocators that --alloc takes by name, and add others: any release, from a package (.deb, .rpm, .whl, .zip, .tar.*, "
        ".pkg.tar.zst, .apk), a shared library or a source archive, under a name such as mimalloc@3.6.0; a C library such as glibc@2.43 with its "
        "loader, from libc6_2.43_amd64.deb."
        "\vWithout --build add runs nothing of FILE. It takes one library, which must be for this processor and of an allocator that the list knows "
        "by its functions, and finds the version in the library, or else in what the package says of itself; of all else in "
        "FILE it writes nothing. A package that is damaged, that unpacks to more than 1 GiB or 250 times its size, or that has names "
        "that lead out of it, hard links, devices or files that run as another user is refused."};

const struct ht_page ht_page_allocators = {
    .name = "allocators",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape allocators", "What there is, with versions"},
            {"heaptape allocators add libmimalloc3_3.6.0+ds-1_amd64.deb", "Add mimalloc@3.6.0"},
            {"heaptape allocators add libc6_2.43-7_amd64.deb", "Add glibc@2.43, its loader with it"},
            {"heaptape allocators add --build mimalloc-3.2.6.tar.gz", "Compile it first"},
            {"heaptape replay --alloc glibc,mimalloc@3.6.0:purge_delay=0,glibc@2.43 app.bin", "Compare them"},
            {"heaptape allocators remove mimalloc@3.6.0", "Remove it"},
            {0}},
    .files = (const struct ht_fact[]){{"$XDG_DATA_HOME/heaptape/allocators/NAME@VERSION",
                                       "What was added; without the variable, below ~/.local/share"},
                                      {0}},
    .environment =
        (const struct ht_fact[]){{"XDG_DATA_HOME", "The folder of the user's data (default: ~/.local/share)"},
                                 {0}},
    .statuses = (const struct ht_fact[]){HT_USUAL_STATUSES, {0}},
    .see_also = "replay try tune"};

static int list(const struct options *options) {
    static char name[] = "heaptape allocators", only[] = "--list", json[] = "--json", verbose[] = "--verbose";
    char *arguments[4] = {name, only};
    int count = 2;
    if (options->json) arguments[count++] = json;
    else if (options->verbose) arguments[count++] = verbose;
    return ht_verb_replay(count, arguments);
}

static int remove_added(const struct options *options) {
    struct ht_added added;
    struct ht_error error;
    char problem[HT_ADDED_PROBLEM_BYTES];
    const char *version;
    // One whose manifest is damaged can be removed, too.
    if (!ht_added_find(options->operand, &added, problem) && !*added.name) {
        ht_print(stderr, "%s: %s\n", program, problem);
        return ht_added_kind(options->operand, &version) ? HT_EXIT_FAILED : HT_EXIT_USAGE;
    }
    if (added_entry_remove(options->operand, &error)) return ht_complain(program, &error);
    return HT_EXIT_DONE;
}

static int add(const struct options *options) {
    const char *version;
    if (!options->name || ht_added_kind(options->name, &version))
        return adding(options->operand, options->name, options->build);
    ht_print(
        stderr,
        "%s: --name %s: expected the name of an allocator that --list has, @ and a version, such as mimalloc@3.6.0\n",
        program, options->name);
    return HT_EXIT_USAGE;
}

int ht_verb_allocators(int argc, char **argv) {
    struct options options = {0};
    ht_page_parse(&ht_page_allocators, argc, argv, 0, &options);
    return options.action == ADD      ? add(&options)
           : options.action == REMOVE ? remove_added(&options)
                                      : list(&options);
}
