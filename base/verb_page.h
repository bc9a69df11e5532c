// SPDX-License-Identifier: Apache-2.0
// What a verb says of itself: its option table and all that --help prints besides. Man pages, completion and
// docs/reference/commands.md are made from the same by cli/pages.py, which reads it as JSON (heaptape help --json). The
// Python verbs have the same in analysis/heaptape/base/verb_parser.py.
#ifndef HEAPTAPE_VERB_PAGE_H
#define HEAPTAPE_VERB_PAGE_H

#include <argp.h>
#include <stdio.h>

struct ht_fact {
    const char *name, *help;
};

// In argp's texts: args_doc has a line for each way to call the verb, doc the description, and behind \v the notes. An
// argument names its kind in capitals, by which a shell completes it: FILE, TRACE, RAW, RESULTS and PLAN are files, DIR a
// folder, PROGRAM a command, ALLOCATOR an allocator; words in lower case, with | between, stand for themselves.
// A list ends with one that has no name, and is NULL where there is none.
struct ht_page {
    const char *name;
    const struct argp *argp;
    const struct ht_fact *commands;  // of the program itself: its verbs
    const struct ht_fact *examples;  // a command, and what it does
    const struct ht_fact *files, *environment, *statuses;
    const char *see_also;  // verbs, with blanks between
    // Headings of options, by argp_option.group, NULL after the last; those of the first are on the one screen that -h prints.
    // NULL: there are no groups.
    const char *const *groups;
};

#define HT_USUAL_STATUSES                                                                                    \
    {"0", "Done"}, {"1", "Failed"}, {"2", "Wrong usage"},                                                    \
        {"3", "The input is damaged, cut short, or of another format"}

// -h, --usage and -V, which every verb has behind its own.
extern const struct argp_option ht_page_options[];

// Parses as argp_parse does, --help printing the page.
void ht_page_parse(const struct ht_page *page, int argc, char **argv, unsigned flags, void *input);

// name: what the verb was called by, such as "heaptape info".
void ht_page_print(FILE *out, const struct ht_page *page, const char *name);
// One screen: the options of the first group, each with the beginning of its help.
void ht_page_print_brief(FILE *out, const struct ht_page *page, const char *name);

#endif
