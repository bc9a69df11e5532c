// SPDX-License-Identifier: Apache-2.0
// The functions by which programs call an allocator that is linked into them, under all names that are known.
// A new function of an allocator is a row in linked_functions.c.
#ifndef HEAPTAPE_LINKED_FUNCTIONS_H
#define HEAPTAPE_LINKED_FUNCTIONS_H

#include <stdbool.h>

#include "elf_file.h"
#include "hook_plan.h"

// The family that a function belongs to. The last three do not name an allocator.
enum linked_family {
    LINKED_JEMALLOC,
    LINKED_MIMALLOC,
    LINKED_TCMALLOC,
    LINKED_RPMALLOC,
    LINKED_SNMALLOC,
    LINKED_PLAIN,
    LINKED_OPERATORS,
    LINKED_RUST,
    LINKED_FAMILIES
};

// As `heaptape replay --alloc` names it; NULL if the family does not say.
const char *linked_family_name(enum linked_family family);

// Whether a symbol is such a function, and then what it does. fits: it takes no more than HT_HOOK_ARGUMENTS.
bool linked_function(const char *name, enum linked_family *family, struct ht_hook_shape *shape, bool *fits);

// The version of an allocator that is linked into a program, as far as the program's file has it: nothing there runs.
enum { LINKED_VERSION_BYTES = 24 };

// Finds the version of the allocator of that name. False, with an empty text, where it is not known.
bool linked_version(const struct elf_file *elf, const char *name, char version[LINKED_VERSION_BYTES]);

#endif
