// SPDX-License-Identifier: Apache-2.0
// Hooks of an allocator that is linked into the program, as `record` has planned them (hook_plan.h).
#ifndef HEAPTAPE_LINKED_HOOKS_H
#define HEAPTAPE_LINKED_HOOKS_H

#include "attributes.h"
#include "hook_plan.h"

// What takes the calls of a function that does this. Its arguments are the function's, HT_HOOK_ARGUMENTS of them, and the
// slot's address.
HIDDEN uintptr_t linked_hook(enum ht_hook_kind kind);

#endif
