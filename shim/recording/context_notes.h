// SPDX-License-Identifier: Apache-2.0
// What is added to the context in the log's header once it is known: loaded objects, and an allocator that is linked into the
// program.
#ifndef HEAPTAPE_CONTEXT_NOTES_H
#define HEAPTAPE_CONTEXT_NOTES_H

#include "attributes.h"
#include "raw_layout.h"

// Counts the objects that the process begins with.
HIDDEN void context_notes_begin(void);
// Names the objects whose calls may never come to the recorder: `bypassed_by`, `own_malloc`, `other_namespaces`. Each once, and
// not where another thread holds the lock of the loader's list.
HIDDEN void context_note_objects(struct ht_raw_header *header);
// Names, as `inner_allocators`, the loaded libraries that have an allocator compiled into them. Not where another thread holds
// that lock.
HIDDEN void context_note_inner_allocators(struct ht_raw_header *header);

// Keeps the name of the allocator that is linked into the program, for the log and all later ones. The first
// name stays.
HIDDEN void linked_allocator_name(const char *name);
// Keeps its version, a text that stays; to be called before its name is given. NULL: not known.
HIDDEN void linked_allocator_version(const char *version);
// Whether its functions are hooked: NULL if they are, else why not. The text stays.
HIDDEN void linked_allocator_hooked(const char *why_not);
// Names it in the header's context as `linked_allocator`, if it is known, with its `linked_version`, and says there as `linked_hooks` whether its
// functions are hooked, if that was planned.
HIDDEN void linked_allocator_note(struct ht_raw_header *header);

#endif
