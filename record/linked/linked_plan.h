// SPDX-License-Identifier: Apache-2.0
// What `record` prepares so that the preloaded library can hook an allocator that is linked into the program.
#ifndef HEAPTAPE_LINKED_PLAN_H
#define HEAPTAPE_LINKED_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "linked_functions.h"

enum { LINKED_NAME_BYTES = 32, LINKED_WHY_BYTES = 512 };

struct linked_plan {
    char *text;                          // for HT_HOOK_VARIABLE; to be freed. NULL: nothing is to be hooked
    char name[LINKED_NAME_BYTES];        // of the allocator
    char version[LINKED_VERSION_BYTES];  // its; empty: not known
    unsigned functions;                  // to be hooked
    bool uncalled;  // no code calls those that allocate, or those that free: it may have them inlined
    char why[LINKED_WHY_BYTES];  // in half a sentence, where there is no text
};

// For an executable's file. `allocator`: what it is known to have linked in, NULL: unknown. False where a function cannot
// be hooked, or none is found: a part of them would make a wrong recording.
bool linked_plan_make(struct linked_plan *plan, const char *executable, const char *allocator);
void linked_plan_free(struct linked_plan *plan);

#endif
