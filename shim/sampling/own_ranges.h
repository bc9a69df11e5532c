// SPDX-License-Identifier: Apache-2.0
// What the hooks know of the program's own memory: the ranges that it mapped for itself, and where its threads'
// stacks end.
#ifndef HEAPTAPE_OWN_RANGES_H
#define HEAPTAPE_OWN_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"

enum {
    OWN_RANGES_MAX = 4096,
    OWN_STACKS_MAX = 4096,
    // So many threads may unmap or move at the same time.
    OWN_LEAVING_MAX = 64,
    // Mapped before the first call of the malloc family.
    OWN_EARLY_MAX = 64,
    // Less than this is on its way all the time, and matters to no figure.
    OWN_MOVED_BYTES_MIN = 256 << 10
};

struct range {
    uintptr_t start, end;
};

// Sorted by address; none overlaps another. Reservations without access are in it, too: the kernel counts what
// of them is resident.
struct range_table {
    struct range range[OWN_RANGES_MAX];
    size_t count;
};

struct own_ranges {
    struct range_table mapped;
    uintptr_t stack_end[OWN_STACKS_MAX];  // of threads that are alive or were; sorted
    size_t stacks;
};

// The kernel was at work on this when the tables were copied. Such memory may be where they say, or nowhere: munmap takes the
// addresses away before the pages, mremap leaves them empty.
struct own_moves {
    struct range leaving[OWN_LEAVING_MAX];
    size_t leaving_count;
    bool unknown;  // there is more, or memory that is being filled and whose address is not known yet
    uint64_t changes;
};

HIDDEN void own_map(uintptr_t start, size_t bytes);
HIDDEN void own_unmap(uintptr_t start, size_t bytes);
// Before the first call of the malloc family nobody knows yet who the allocator is, and its constructor may map memory.
HIDDEN void own_map_early(uintptr_t start, size_t bytes, const void *caller);
// Now that it is known: what it has mapped is not the program's.
HIDDEN void own_end_early(void);
// These stand around the kernel's work, which takes a while: what is being unmapped may still be resident. It is no longer the
// program's by its address, which another thread may get at once. `who` is any pointer of the thread's. Whether anything was
// its own.
HIDDEN bool own_unmap_begins(uintptr_t start, size_t bytes, const void *who);
// `stays`: what was its own is so again, since the kernel refused, or left the addresses mapped.
HIDDEN void own_unmap_ends(const void *who, bool stays);
// It went. Nobody else is there, so that no lock is needed.
HIDDEN void own_unmap_ends_alone(void);
// Around a mapping that the kernel fills before we know where it is.
HIDDEN void own_fill_begins(size_t bytes, const void *who);
HIDDEN void own_fill_ends(const void *who);
// A thread that was cancelled in such a call has nothing under way.
HIDDEN void own_thread_ends(const void *who);
HIDDEN bool own_has(uintptr_t address);
// The calling thread's stack, which libc mapped for it.
HIDDEN void own_note_stack(void);
// The copy includes what is being unmapped, which is told in `moves` as well. False if there was too much to follow.
HIDDEN bool own_copy(struct own_ranges *to, struct own_moves *moves);
// Has anything begun or ended to move since?
HIDDEN bool own_has_moved(const struct own_moves *moves);
HIDDEN size_t own_stacks(void);
// The bytes of all known mappings, resident or not, with those that are on their way; UINT64_MAX: unknown.
HIDDEN uint64_t own_mapped_bytes(void);
HIDDEN void own_ranges_after_fork(void);

#endif
