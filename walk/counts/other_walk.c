// SPDX-License-Identifier: Apache-2.0
// The walk: an allocator's file finds its spans, which are then checked and summed up.
#include <stdlib.h>
#include <string.h>

#include "other.h"
#include "sorted.h"

// ---- sums of spans ----

static void add_resident(struct other *other) {
    for (size_t i = 0; i < other->span_count; i++) {
        const struct other_span *span = &other->spans[i];
        uint64_t resident = space_runs_bytes(&other->runs, span->start, span->end);
        uint64_t live = span->blocks * span->block_bytes;
        if (live > resident) live = resident;
        if (span->shifted) other->shifted_bytes += span->blocks * span->block_bytes;
        if (!span->blocks) other->free_resident_bytes += resident;
        else other->live_resident_bytes += live, other->holes_resident_bytes += resident - live;
    }
}

static void merge_sizes(struct other *other) {
    size_t kept = 0;
    if (other->size_count) qsort(other->sizes, other->size_count, sizeof *other->sizes, ht_by_word);
    for (size_t i = 0; i < other->size_count; i++) {
        const struct other_size *size = &other->sizes[i];
        if (!kept || other->sizes[kept - 1].block_bytes != size->block_bytes) {
            other->sizes[kept++] = *size;
            continue;
        }
        other->sizes[kept - 1].blocks += size->blocks;
        other->sizes[kept - 1].free_blocks += size->free_blocks;
        other->sizes[kept - 1].cached_blocks += size->cached_blocks;
    }
    other->size_count = kept;
}

static bool add_sizes(struct other *other) {
    for (size_t i = 0; i < other->span_count; i++) {
        const struct other_span *span = &other->spans[i];
        struct other_size *size = span->room ? other_size_of(other, span->block_bytes) : NULL;
        if (!span->room) continue;
        if (!size) return false;
        size->blocks += span->blocks;
        size->free_blocks += span->room - span->blocks;
    }
    merge_sizes(other);
    for (size_t i = 0; i < other->size_count; i++) {
        struct other_size *size = &other->sizes[i];
        if (size->cached_blocks > size->blocks) {
            other->lost++;
            size->cached_blocks = size->blocks;
        }
        size->blocks -= size->cached_blocks;
        other->blocks += size->blocks;
        other->usable_bytes += size->blocks * size->block_bytes;
        other->cached_bytes += size->cached_blocks * size->block_bytes;
    }
    // Where caches hold blocks is not known: they count as live where those lie, and are moved here.
    uint64_t moved =
        other->cached_bytes < other->live_resident_bytes ? other->cached_bytes : other->live_resident_bytes;
    other->live_resident_bytes -= moved;
    other->holes_resident_bytes += moved;
    return true;
}

// ---- the walk ----

static int add_runs(struct other *other, struct ht_error *error) {
    for (size_t i = 0; i < other->space->mapping_count; i++) {
        const struct space_mapping *mapping = &other->space->mappings[i];
        if (!mapping->shared && mapping->writable &&
            space_runs_add(other->space, mapping->start, mapping->end, &other->runs, error))
            return -1;
    }
    return 0;
}

bool other_walks(const char *allocator) {
    return !strcmp(allocator, "jemalloc") || !strcmp(allocator, "tcmalloc") || !strcmp(allocator, "mimalloc");
}

static bool find(struct other *other, const char *allocator, const struct module *module) {
    if (!strcmp(allocator, "jemalloc")) return other_find_jemalloc(other, module);
    if (!strcmp(allocator, "tcmalloc")) return other_find_tcmalloc(other, module);
    return other_find_mimalloc3(other, module) && (other->build || other_find_mimalloc2(other));
}

int other_walk(struct other *other, struct space *space, const char *allocator, const struct module *module,
               bool *found, struct ht_error *error) {
    *other = (struct other){.space = space};
    *found = false;
    if (!other_walks(allocator)) return 0;
    if (add_runs(other, error)) return -1;
    bool enough = find(other, allocator, module);
    other_check_spans(other);
    add_resident(other);
    if (!enough || !add_sizes(other)) return ht_error_memory(error, "walk", "the allocator's records");
    *found = other->build && other->blocks && other_agrees(other);
    return 0;
}

void other_free(struct other *other) {
    space_runs_free(&other->runs);
    free(other->spans);
    free(other->sizes);
    *other = (struct other){0};
}
