// SPDX-License-Identifier: Apache-2.0
#include "outside.h"

#include <string.h>

struct cut {
    uint64_t start, end;
};

// The next stretch of malloc's that ends behind the address, of heaps and mapped chunks, both by address.
static struct cut next_of_malloc(const struct glibc *glibc, uint64_t address, size_t *heap, size_t *mapped) {
    struct cut none = {UINT64_MAX, UINT64_MAX};
    if (!glibc) return none;
    while (*heap < glibc->heap_count && glibc->heaps[*heap].end <= address) ++*heap;
    while (*mapped < glibc->mapped_count && glibc->mapped[*mapped].end <= address) ++*mapped;
    struct cut one = *heap < glibc->heap_count
                         ? (struct cut){glibc->heaps[*heap].mapped_start, glibc->heaps[*heap].end}
                         : none;
    struct cut other = *mapped < glibc->mapped_count
                           ? (struct cut){glibc->mapped[*mapped].start, glibc->mapped[*mapped].end}
                           : none;
    struct cut first = one.start < other.start ? one : other;
    first.start &= ~(SPACE_PAGE_BYTES - 1);
    first.end = (first.end + SPACE_PAGE_BYTES - 1) & ~(SPACE_PAGE_BYTES - 1);
    return first;
}

// A thread's stack lies behind a page that nobody may touch.
static bool is_stack(const struct space *space, size_t number) {
    const struct space_mapping *mapping = &space->mappings[number];
    if (!strncmp(mapping->name, "[stack", 6)) return true;
    if (!number || !mapping->anonymous || !mapping->writable) return false;
    const struct space_mapping *before = mapping - 1;
    return before->end == mapping->start && before->anonymous && !before->readable && !before->writable;
}

static void add(struct outside *outside, const struct space *space, size_t number, uint64_t bytes) {
    const struct space_mapping *mapping = &space->mappings[number];
    if (is_stack(space, number)) outside->stacks_bytes += bytes;
    else if (!mapping->anonymous || mapping->behind_file) outside->files_bytes += bytes;
    else {
        outside->other_bytes += bytes;
        if (bytes <= outside->largest_bytes) return;
        outside->largest_bytes = bytes;
        outside->largest_start = mapping->start;
    }
}

int outside_take(struct outside *outside, struct space *space, const struct glibc *glibc,
                 struct ht_error *error) {
    size_t heap = 0, mapped = 0;
    *outside = (struct outside){0};
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        struct space_runs runs = {0};
        if (mapping->shared || !strncmp(mapping->name, "[v", 2)) continue;
        for (uint64_t at = mapping->start; at < mapping->end;) {
            struct cut cut = next_of_malloc(glibc, at, &heap, &mapped);
            uint64_t end = cut.start < mapping->end ? cut.start : mapping->end;
            if (at < end && space_runs_add(space, at, end, &runs, error)) return -1;
            at = cut.end > end && end == cut.start ? cut.end : end;
            if (cut.start <= at && cut.end > at) at = cut.end;
        }
        add(outside, space, i, runs.bytes);
        outside->swapped_bytes += runs.swapped_bytes;
        space_runs_free(&runs);
    }
    return 0;
}
