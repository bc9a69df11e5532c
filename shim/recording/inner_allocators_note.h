// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_INNER_ALLOCATORS_NOTE_H
#define HEAPTAPE_INNER_ALLOCATORS_NOTE_H

#include "attributes.h"
#include "raw_layout.h"

// Names, in the header's context as `inner_allocators`, the loaded libraries that have an allocator compiled into them. Not
// where another thread holds the lock of the loader's list.
HIDDEN void inner_allocators_note(struct ht_raw_header *header);

#endif
