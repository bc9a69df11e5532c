// SPDX-License-Identifier: Apache-2.0
// What the parts of the front end share: the table of verbs.
#ifndef HEAPTAPE_FRONT_END_H
#define HEAPTAPE_FRONT_END_H

#include "verb_page.h"

struct ht_verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    const struct ht_page *page;  // NULL: the verb is written in Python, and has it there
};

extern const struct ht_verb ht_verbs[];  // one without a name ends them
extern const struct ht_page ht_page_front_end;

// heaptape help --json. Returns the exit status.
int ht_print_option_tables(void);

#endif
