// SPDX-License-Identifier: Apache-2.0
#include "outside.h"

#include <string.h>

struct cut {
    uint64_t start, end;
};

// What is malloc's, by address, and how far it was looked at.
struct mine {
    const struct glibc *glibc;
    const struct other *other;
    size_t heap, mapped, span;
};

static struct cut earlier(struct cut one, struct cut other) { return one.start < other.start ? one : other; }

// The next stretch of malloc's that ends behind the address.
static struct cut next_of_malloc(struct mine *mine, uint64_t address) {
    struct cut first = {UINT64_MAX, UINT64_MAX};
    const struct glibc *glibc = mine->glibc;
    const struct other *other = mine->other;
    if (glibc) {
        while (mine->heap < glibc->heap_count && glibc->heaps[mine->heap].end <= address) mine->heap++;
        while (mine->mapped < glibc->mapped_count && glibc->mapped[mine->mapped].end <= address)
            mine->mapped++;
        if (mine->heap < glibc->heap_count)
            first = (struct cut){glibc->heaps[mine->heap].mapped_start, glibc->heaps[mine->heap].end};
        if (mine->mapped < glibc->mapped_count)
            first = earlier(first,
                            (struct cut){glibc->mapped[mine->mapped].start, glibc->mapped[mine->mapped].end});
    }
    if (other) {
        while (mine->span < other->span_count && other->spans[mine->span].end <= address) mine->span++;
        if (mine->span < other->span_count)
            first =
                earlier(first, (struct cut){other->spans[mine->span].start, other->spans[mine->span].end});
    }
    if (first.start == UINT64_MAX) return first;
    return (struct cut){first.start & ~(SPACE_PAGE_BYTES - 1),
                        (first.end + SPACE_PAGE_BYTES - 1) & ~(SPACE_PAGE_BYTES - 1)};
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
                 const struct other *other, struct ht_error *error) {
    struct mine mine = {.glibc = glibc, .other = other};
    *outside = (struct outside){0};
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        struct space_runs runs = {0};
        if (mapping->shared || !strncmp(mapping->name, "[v", 2)) continue;
        for (uint64_t at = mapping->start; at < mapping->end;) {
            struct cut cut = next_of_malloc(&mine, at);
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
