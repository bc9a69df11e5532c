// What the hooks know of the program's own memory: the ranges that it mapped for itself, and where its threads'
// stacks end.
#ifndef HEAPTAPE_OWN_RANGES_H
#define HEAPTAPE_OWN_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"

enum { OWN_RANGES_MAX = 4096, OWN_STACKS_MAX = 4096 };

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

HIDDEN void own_map(uintptr_t start, size_t bytes);
HIDDEN void own_unmap(uintptr_t start, size_t bytes);
// The same around the kernel's work, which takes a while: what is being unmapped may still be resident. It is no
// longer the program's by its address, which another thread may get at once. `who` is any pointer of the thread's.
HIDDEN void own_unmap_begins(uintptr_t start, size_t bytes, const void *who);
HIDDEN void own_unmap_ends(const void *who);
HIDDEN bool own_has(uintptr_t address);
// The calling thread's stack, which libc mapped for it.
HIDDEN void own_note_stack(void);
// With what is being unmapped. False if there was too much to follow.
HIDDEN bool own_copy(struct own_ranges *to);
HIDDEN bool own_is_known(void);
HIDDEN size_t own_stacks(void);
HIDDEN void own_ranges_after_fork(void);

#endif
