// SPDX-License-Identifier: Apache-2.0
// The version of an allocator that is linked into a program, as far as the program's file has it: nothing there runs.
#ifndef HEAPTAPE_LINKED_VERSION_H
#define HEAPTAPE_LINKED_VERSION_H

#include <stdbool.h>

#include "elf_file.h"

enum { LINKED_VERSION_BYTES = 24 };

// Of the allocator of that name. False, with an empty text, where it is not known.
bool linked_version(const struct elf_file *elf, const char *name, char version[LINKED_VERSION_BYTES]);

#endif
