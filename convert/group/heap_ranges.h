// SPDX-License-Identifier: Apache-2.0
// Which of a process's pages are malloc's at a moment, and how many of a group's are its programs' own
// (docs/reference/group-format.md, "The trace of a group").
#ifndef HEAPTAPE_HEAP_RANGES_H
#define HEAPTAPE_HEAP_RANGES_H

#include "group_snapshot.h"
#include "heap_model.h"

struct heap_range {
    uint64_t start, end;  // addresses, of whole pages
};

struct heap_ranges {
    struct heap_range *range;  // by address, apart from each other
    size_t count, room;
};

// Finds the ranges of the process that is the snapshot's member and whose heap is given: the mapping of brk and glibc's arenas
// where blocks lie, else the pages of live blocks; with `held` also where blocks lay, for allocators whose arenas are not
// known. False for want of memory; to be freed in any case.
bool heap_ranges_find(struct heap_ranges *ranges, const struct heap_model *heap,
                      const struct ht_group_member *member, uint32_t page_bytes, bool held);
void heap_ranges_free(struct heap_ranges *ranges);

// Own pages of processes that may share them: of the same tree, at the same address.
struct own_pages;
struct own_pages *own_pages_begin(uint32_t page_bytes, size_t members);
// ranges: NULL, if nothing of the member is known to be malloc's. tree: below 2^12. False for want of memory.
bool own_pages_add(struct own_pages *own, size_t member, uint32_t tree, const struct ht_group_member *of,
                   const struct heap_ranges *ranges);
// Of all together, each page once; *of_member: of each, a shared page by its part. False for want of memory. Frees it.
bool own_pages_end(struct own_pages *own, uint64_t *bytes, uint64_t *of_member);

#endif
