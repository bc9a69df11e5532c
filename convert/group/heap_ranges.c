// SPDX-License-Identifier: Apache-2.0
#include "heap_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "sorted.h"

// On 64-bit machines glibc's arenas lie so: an arena's heap lies in a region of that size and alignment; a block of at least
// so many bytes may be a mapping of its own, in which it lies behind 16 bytes.
static const uint64_t ARENA_BYTES = UINT64_C(64) << 20, MAPPED_BYTES_MIN = 128 << 10;
enum { MAPPED_OFFSET = 16, TREE_SHIFT = 48 };

static bool add_range(struct heap_ranges *ranges, uint64_t start, uint64_t end) {
    struct heap_range *last = ranges->count ? &ranges->range[ranges->count - 1] : NULL;
    if (last && start <= last->end && start >= last->start) {
        if (end > last->end) last->end = end;
        return true;
    }
    if (!ht_grow(&ranges->range, &ranges->room, ranges->count + 1, sizeof *ranges->range)) return false;
    ranges->range[ranges->count++] = (struct heap_range){start, end};
    return true;
}

static void join_ranges(struct heap_ranges *ranges) {
    size_t count = ranges->count;
    if (!count) return;
    qsort(ranges->range, count, sizeof *ranges->range, ht_by_word);
    ranges->count = 1;
    for (size_t i = 1; i < count; i++) {
        struct heap_range *last = &ranges->range[ranges->count - 1], next = ranges->range[i];
        if (next.start > last->end) ranges->range[ranges->count++] = next;
        else if (next.end > last->end) last->end = next.end;
    }
}

struct finding {
    struct heap_ranges *ranges;
    const struct ht_group_member *member;
    uint64_t page_bytes;
};

static const struct ht_group_mapping *mapping_at(const struct ht_group_member *member, uint64_t address) {
    size_t i = HT_FIRST_ABOVE(member->mapping, member->mappings, start, address);
    return i && member->mapping[i - 1].end > address ? &member->mapping[i - 1] : NULL;
}

// All that brk has given: a snapshot leaves out what is absent, and shows the rest as several mappings.
static bool add_brk(const struct finding *finding) {
    uint64_t start = UINT64_MAX, end = 0;
    for (size_t i = 0; i < finding->member->mappings; i++) {
        const struct ht_group_mapping *mapping = &finding->member->mapping[i];
        if (mapping->kind != HT_MAPPING_HEAP) continue;
        if (mapping->start < start) start = mapping->start;
        if (mapping->end > end) end = mapping->end;
    }
    return add_range(finding->ranges, start, end);
}

// What a live block shows: the whole of what its arena has, or its own pages. A region of glibc's that has an arena has its
// head, too, which is resident.
static bool add_block(const struct finding *finding, uint64_t address, uint64_t bytes) {
    const struct ht_group_mapping *mapping = mapping_at(finding->member, address);
    uint64_t page = finding->page_bytes, last = address + (bytes ? bytes - 1 : 0),
             region = address & -ARENA_BYTES;
    bool alone = bytes >= MAPPED_BYTES_MIN && address % page == MAPPED_OFFSET;
    if (last < address) return true;
    if (mapping && mapping->kind == HT_MAPPING_HEAP) return add_brk(finding);
    const struct ht_group_mapping *head = alone ? NULL : mapping_at(finding->member, region);
    if (head && head->kind == HT_MAPPING_ANONYMOUS)
        return add_range(finding->ranges, region, region + ARENA_BYTES);
    return add_range(finding->ranges, address & -page, (last & -page) + page);
}

static bool add_held(const struct finding *finding, const struct heap_model *heap) {
    const uint64_t unit = UINT64_C(1) << HEAP_HELD_SHIFT;
    for (size_t i = 0; i < finding->member->mappings; i++) {
        const struct ht_group_mapping *mapping = &finding->member->mapping[i];
        if (mapping->kind == HT_MAPPING_STACK || mapping->kind == HT_MAPPING_FILE) continue;
        for (uint64_t at = mapping->start; at < mapping->end;) {
            uint64_t next = (at & -unit) + unit, end = next < mapping->end ? next : mapping->end;
            if (heap_model_held_bytes(heap, at, end) && !add_range(finding->ranges, at, end)) return false;
            at = end;
        }
    }
    return true;
}

bool heap_ranges_find(struct heap_ranges *ranges, const struct heap_model *heap,
                      const struct ht_group_member *member, uint32_t page_bytes, bool held) {
    const struct finding finding = {ranges, member, page_bytes};
    const struct map64 *addresses = &heap->addresses;
    *ranges = (struct heap_ranges){0};
    for (size_t i = 0; i < addresses->room; i++) {
        if (!map64_has(addresses, i)) continue;
        uint64_t bytes = heap->slots.state[(uint32_t)addresses->entry[i].value].size;
        if (!add_block(&finding, addresses->entry[i].key, bytes)) return false;
        // Most blocks show the same.
        if (ranges->count == ranges->room) join_ranges(ranges);
    }
    if (held && !add_held(&finding, heap)) return false;
    join_ranges(ranges);
    return true;
}

void heap_ranges_free(struct heap_ranges *ranges) {
    free(ranges->range);
    *ranges = (struct heap_ranges){0};
}

// ---- own pages ----

// Shared pages of a member next to each other, numbered by address, with the tree above.
struct shared_run {
    uint64_t first, end;
    size_t member;
};

struct own_pages {
    uint32_t page_bytes;
    size_t members, runs, room;
    struct shared_run *run;
    uint64_t *exclusive;  // pages of each member
};

struct own_pages *own_pages_begin(uint32_t page_bytes, size_t members) {
    struct own_pages *own = calloc(1, sizeof *own);
    if (!own) return NULL;
    own->page_bytes = page_bytes;
    own->members = members;
    own->exclusive = calloc(members + 1, sizeof *own->exclusive);
    if (own->exclusive) return own;
    free(own);
    return NULL;
}

static bool add_shared(struct own_pages *own, size_t member, uint64_t page) {
    struct shared_run *last = own->runs ? &own->run[own->runs - 1] : NULL;
    if (last && last->member == member && last->end == page) {
        last->end++;
        return true;
    }
    if (!ht_grow(&own->run, &own->room, own->runs + 1, sizeof *own->run)) return false;
    own->run[own->runs++] = (struct shared_run){page, page + 1, member};
    return true;
}

bool own_pages_add(struct own_pages *own, size_t member, uint32_t tree, const struct ht_group_member *of,
                   const struct heap_ranges *ranges) {
    size_t range = 0, count = ranges ? ranges->count : 0;
    for (size_t i = 0; i < of->mappings; i++) {
        const struct ht_group_mapping *mapping = &of->mapping[i];
        uint64_t pages = (mapping->end - mapping->start) / own->page_bytes;
        for (uint64_t k = 0; k < pages; k++) {
            uint64_t address = mapping->start + k * own->page_bytes;
            while (range < count && ranges->range[range].end <= address) range++;
            if (range < count && ranges->range[range].start <= address) continue;
            if (mapping->state[k] == HT_PAGE_EXCLUSIVE) own->exclusive[member]++;
            else if (mapping->state[k] == HT_PAGE_SHARED &&
                     !add_shared(own, member, address / own->page_bytes | (uint64_t)tree << TREE_SHIFT))
                return false;
        }
    }
    return true;
}

// Between two of these places the same members have each page.
struct own_edge {
    uint64_t place;
    int64_t more;     // members from here on
    uint64_t before;  // pages before it, each once
    double part;      // the same, divided by how many have it
};

static struct own_edge *make_edges(const struct own_pages *own) {
    struct own_edge *edge = malloc((2 * own->runs + 1) * sizeof *edge);
    if (!edge) return NULL;
    for (size_t i = 0; i < own->runs; i++) {
        edge[2 * i] = (struct own_edge){.place = own->run[i].first, .more = 1};
        edge[2 * i + 1] = (struct own_edge){.place = own->run[i].end, .more = -1};
    }
    if (own->runs) qsort(edge, 2 * own->runs, sizeof *edge, ht_by_word);
    int64_t members = 0;
    for (size_t i = 0; i < 2 * own->runs; i++) {
        uint64_t pages = i ? edge[i].place - edge[i - 1].place : 0;
        edge[i].before = i ? edge[i - 1].before : 0;
        edge[i].part = i ? edge[i - 1].part : 0;
        if (members > 0) {
            edge[i].before += pages;
            edge[i].part += (double)pages / (double)members;
        }
        members += edge[i].more;
    }
    return edge;
}

bool own_pages_end(struct own_pages *own, uint64_t *bytes, uint64_t *of_member) {
    struct own_edge *edge = make_edges(own);
    size_t edges = 2 * own->runs;
    uint64_t pages = edge && edges ? edge[edges - 1].before : 0;
    for (size_t i = 0; i < own->members; i++) {
        pages += own->exclusive[i];
        of_member[i] = own->exclusive[i] * own->page_bytes;
    }
    for (size_t i = 0; edge && i < own->runs; i++) {
        const struct own_edge *from = &edge[HT_FIRST_FROM(edge, edges, place, own->run[i].first)],
                              *until = &edge[HT_FIRST_FROM(edge, edges, place, own->run[i].end)];
        of_member[own->run[i].member] += (uint64_t)((until->part - from->part) * own->page_bytes + 0.5);
    }
    *bytes = pages * own->page_bytes;
    bool made = edge != NULL;
    free(edge);
    free(own->run);
    free(own->exclusive);
    free(own);
    return made;
}
