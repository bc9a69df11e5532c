// SPDX-License-Identifier: Apache-2.0
// heaptape help --json: the tables that --help is printed from, one JSON object a line: the program's, with its verbs and
// the knobs of allocators, then each verb's. The Python verbs print theirs (analysis/heaptape/base/verb_parser.py).
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "error.h"
#include "front_end.h"
#include "json_values.h"
#include "talk.h"
#include "verbs.h"

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

static void print(json_t *made) {
    json_dumpf(made, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(made);
}

int ht_print_option_tables(void) {
    static char verb[] = "help", option[] = "--json";
    json_t *front_end = page_json(&ht_page_front_end), *verbs = json_array();
    for (size_t i = 0; ht_verbs[i].name; i++)
        json_array_append_new(verbs,
                              json_pack("{s:s, s:s}", "name", ht_verbs[i].name, "help", ht_verbs[i].summary));
    json_object_set_new(front_end, "version", json_string(HEAPTAPE_VERSION));
    json_object_set_new(front_end, "commands", verbs);
    json_object_set_new(front_end, "knobs", knobs_json());
    print(front_end);
    for (size_t i = 0; ht_verbs[i].name; i++)
        if (ht_verbs[i].page) print(page_json(ht_verbs[i].page));
    int status = ht_stdout_status("heaptape", HT_EXIT_DONE);
    return status ? status : ht_verb_python(2, (char *[]){verb, option, NULL});
}
