// SPDX-License-Identifier: Apache-2.0
// Where the process's anonymous memory lies that the hooks do not know as the program's own. Most of it is the heap. What is
// not, such as a mapping by a bare system call, holds no block: a reader of the log, which knows all blocks, can tell.
#ifndef HEAPTAPE_HEAP_PIECES_H
#define HEAPTAPE_HEAP_PIECES_H

#include "process_memory.h"

// Between these two, one thread at a time: ranges of mappings, by rising addresses.
HIDDEN void heap_pieces_begin(void);
HIDDEN void heap_pieces_add(struct page_counter *pages, uintptr_t start, uintptr_t end);
// False if there was too much to look at.
HIDDEN bool heap_pieces_are_known(void);
// Before the sample that has the same stamp.
HIDDEN void heap_pieces_put(struct thread_state *t, uint64_t stamp);
// In their place, where nothing was counted: how much the program has mapped for itself at most.
HIDDEN void heap_pieces_put_bound(struct thread_state *t, uint64_t stamp, uint64_t mapped_bytes);

#endif
