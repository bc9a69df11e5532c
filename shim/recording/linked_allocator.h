// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_LINKED_ALLOCATOR_H
#define HEAPTAPE_LINKED_ALLOCATOR_H

#include "attributes.h"
#include "raw_layout.h"

// Keeps the name of the allocator that is linked into the program, for the log and all later ones. The first
// name stays.
HIDDEN void linked_allocator_name(const char *name);
// The same for its version, as a text that stays; before its name. NULL: not known.
HIDDEN void linked_allocator_version(const char *version);
// Whether its functions are hooked: NULL if they are, else why not. The text stays.
HIDDEN void linked_allocator_hooked(const char *why_not);
// Names it in the header's context as `linked_allocator`, if it is known, with its `linked_version`, and says there as `linked_hooks` whether its
// functions are hooked, if that was planned.
HIDDEN void linked_allocator_note(struct ht_raw_header *header);

#endif
