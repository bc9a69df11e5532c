// SPDX-License-Identifier: Apache-2.0
// Walks the chunks of glibc's heaps, header by header, while the process may go on. A header that makes no sense is read
// again, from some chunks before it on; what then still makes none is left out up to the next chunk that a bin names, and
// counted.
#include <stdlib.h>
#include <string.h>

#include "glibc.h"
#include "grow.h"
#include "sorted.h"

enum {
    ATTEMPTS = 4,
    FREE_CHUNKS_MAX = 4 << 20,
    SEARCH_BYTES = 1 << 20,  // behind what makes no sense
    STEPS_MAX = 1 << 16,     // of one try there
    HEAP_BYTES_SMALL = 1 << 30,
    HEAP_SPARSE = 1024,
};

struct walk {
    struct glibc *glibc;
    struct glibc_heap *heap;
    struct glibc_arena *arena;
    struct space_window window;
    uint64_t at, last;  // last: the chunk before, 0: unknown
    uint64_t bad_at;
    int attempts;
    uint64_t window_start;  // the arena's top is read again as often as the window moves
    uint64_t windows;       // how often it has moved
};

enum step { STEP_ON, STEP_BAD, STEP_END, STEP_NO_MEMORY };

static struct glibc_header header_at(struct walk *walk, uint64_t at) {
    struct glibc_header header;
    memcpy(&header, space_window_at(&walk->window, at, sizeof header), sizeof header);
    if (walk->window.start != walk->window_start) {
        walk->window_start = walk->window.start;
        walk->windows++;
        (void)space_read_all(walk->glibc->space, walk->arena->address + walk->glibc->layout->arena.top,
                             &walk->arena->top, 8);
    }
    return header;
}

static bool makes_sense(const struct walk *walk, const struct glibc_header *header, uint64_t at) {
    uint64_t bytes = glibc_chunk_bytes(header);
    if (bytes < CHUNK_BYTES_MIN || bytes % CHUNK_UNIT_BYTES || bytes > walk->heap->end - at) return false;
    if (header->size_and_flags & GLIBC_IS_MAPPED) return false;
    return !(header->size_and_flags & GLIBC_OF_OTHER_ARENA) || walk->heap->arena != 0;
}

// Two posts, or one and an end of no size, close what malloc gave up in favour of another stretch. A chunk of the least
// size right before the end is a post, too.
static bool is_last(struct walk *walk, uint64_t at, uint64_t bytes) {
    uint64_t next = at + bytes;
    if (bytes > CHUNK_BYTES_MIN || next + GLIBC_POST_BYTES > walk->heap->end) return false;
    struct glibc_header header = header_at(walk, next);
    return glibc_chunk_bytes(&header) == 0 && header.size_and_flags == GLIBC_PREVIOUS_IN_USE &&
           next + 2 * GLIBC_POST_BYTES > walk->heap->end;
}

// A chunk may be 16 bytes larger than asked for, which are no chunk of their own.
static bool may_be_cache(const struct glibc_layout *layout, uint64_t bytes) {
    uint64_t least =
        ((uint64_t)layout->cache.all + 8 + CHUNK_UNIT_BYTES - 1) & ~(uint64_t)(CHUNK_UNIT_BYTES - 1);
    return bytes == least || bytes == least + CHUNK_UNIT_BYTES;
}

static bool note_cache(struct glibc *glibc, uint64_t chunk) {
    if (glibc->cache_count && glibc->caches[glibc->cache_count - 1] == chunk) return true;
    if (!ht_grow(&glibc->caches, &glibc->cache_room, glibc->cache_count + 1, sizeof chunk)) return false;
    glibc->caches[glibc->cache_count++] = chunk;
    return true;
}

static enum step take_top(struct walk *walk, uint64_t at, uint64_t bytes) {
    uint64_t left = walk->heap->end - at;
    chunk_map_add(&walk->heap->chunks, at);
    walk->heap->chunks.top = at;
    walk->at = at + (bytes < left ? bytes : left);
    chunk_map_end(&walk->heap->chunks, walk->at);
    return STEP_END;
}

// A post or the heap's end closes the chunks there.
static enum step end(struct walk *walk) {
    chunk_map_end(&walk->heap->chunks, walk->at);
    walk->at = walk->heap->end;
    return STEP_END;
}

// Behind two posts may lie what others took from sbrk, and then chunks again.
static enum step take_post(struct walk *walk) {
    uint64_t post = walk->at;
    if (post + 2 * GLIBC_POST_BYTES > walk->heap->end) return end(walk);
    walk->at = post + GLIBC_POST_BYTES;
    walk->last = 0;
    return chunk_map_add_gap(&walk->heap->chunks, post, walk->at, GAP_POST) ? STEP_ON : STEP_NO_MEMORY;
}

static enum step take(struct walk *walk) {
    uint64_t at = walk->at;
    if (at + GLIBC_POST_BYTES > walk->heap->end) return end(walk);
    struct glibc_header header = header_at(walk, at);
    uint64_t bytes = glibc_chunk_bytes(&header);
    if (walk->last && !(header.size_and_flags & GLIBC_PREVIOUS_IN_USE)) {
        if (header.previous_bytes != at - walk->last) return STEP_BAD;
        chunk_map_set_kind(&walk->heap->chunks, walk->last, CHUNK_BINS);
    }
    if (at == walk->arena->top) return take_top(walk, at, bytes);
    if (bytes == GLIBC_POST_BYTES && !(header.size_and_flags & GLIBC_IS_MAPPED)) return take_post(walk);
    if (bytes == 0 && header.size_and_flags == GLIBC_PREVIOUS_IN_USE &&
        at + 2 * GLIBC_POST_BYTES > walk->heap->end)
        return end(walk);
    if (!makes_sense(walk, &header, at)) return STEP_BAD;
    if (is_last(walk, at, bytes)) return end(walk);
    if (may_be_cache(walk->glibc->layout, bytes) && !note_cache(walk->glibc, at)) return STEP_NO_MEMORY;
    chunk_map_add(&walk->heap->chunks, at);
    walk->last = at;
    walk->at = at + bytes;
    return STEP_ON;
}

// ---- what makes no sense ----

static bool note_free(struct glibc_arena *arena, uint64_t chunk) {
    if (!ht_grow(&arena->free_chunks, &arena->free_room, arena->free_count + 1, sizeof chunk)) return false;
    arena->free_chunks[arena->free_count++] = chunk;
    return true;
}

// A list may be damaged so that it leads back into itself: by Brent's way each chunk is held against an earlier one.
static bool list_bin(struct glibc *glibc, struct glibc_arena *arena, int bin) {
    uint64_t end = glibc_bin(glibc, arena, bin), chunk = arena->bins[2 * bin], earlier = 0;
    for (uint64_t i = 1, next = 1; chunk != end && chunk != earlier; i++) {
        if (chunk % CHUNK_UNIT_BYTES || arena->free_count == FREE_CHUNKS_MAX ||
            !glibc_spend(glibc, EFFORT_WORD))
            break;
        if (!note_free(arena, chunk)) return false;
        if (i == next) earlier = chunk, next *= 2;
        if (!space_read_all(glibc->space, chunk + 16, &chunk, sizeof chunk)) break;
    }
    return true;
}

// The chunks in an arena's bins, as far as its lists can be followed, and its top. False for want of memory.
static bool list_free(struct glibc *glibc, struct glibc_arena *arena) {
    arena->free_known = true;
    if (!glibc_read_arena(glibc, arena->address, arena)) return true;
    if (!note_free(arena, arena->top)) return false;
    for (int bin = 0; bin < GLIBC_BINS; bin++)
        if (!list_bin(glibc, arena, bin)) return false;
    qsort(arena->free_chunks, arena->free_count, sizeof *arena->free_chunks, ht_by_word);
    return true;
}

// The first chunk of a bin, or the top, that lies there or behind; the heap's end if there is none.
static uint64_t anchor_behind(const struct walk *walk, uint64_t at) {
    const struct glibc_arena *arena = walk->arena;
    size_t found = ht_first_from(arena->free_chunks, arena->free_count, sizeof *arena->free_chunks, 0, at);
    return found < arena->free_count && arena->free_chunks[found] < walk->heap->end
               ? arena->free_chunks[found]
               : walk->heap->end;
}

// Do the headers lead from there to the anchor?
static bool leads_to(struct walk *walk, uint64_t at, uint64_t anchor) {
    for (int i = 0; at < anchor && i < STEPS_MAX; i++) {
        uint64_t windows = walk->windows;
        struct glibc_header header = header_at(walk, at);
        if (!glibc_spend(walk->glibc, windows == walk->windows ? EFFORT_HEADER : EFFORT_WINDOW) ||
            !makes_sense(walk, &header, at))
            return false;
        at += glibc_chunk_bytes(&header);
    }
    return at >= anchor && (at == anchor || anchor == walk->heap->end);
}

// Whether a post is what lies before: then others have moved the break.
static bool is_behind_post(const struct walk *walk) {
    const struct chunk_map *chunks = &walk->heap->chunks;
    const struct chunk_gap *last = chunks->gap_count ? &chunks->gaps[chunks->gap_count - 1] : NULL;
    return last && last->kind == GAP_POST && last->end == walk->at;
}

static bool skip(struct walk *walk) {
    uint64_t from = walk->at;
    if (!walk->arena->free_known && !list_free(walk->glibc, walk->arena)) return false;
    uint64_t anchor = anchor_behind(walk, from + CHUNK_UNIT_BYTES), to = from + CHUNK_UNIT_BYTES;
    bool found = false;
    for (; to < anchor && to - from < SEARCH_BYTES && walk->glibc->effort; to += CHUNK_UNIT_BYTES)
        if ((found = leads_to(walk, to, anchor))) break;
    found = found || (to == anchor && to < walk->heap->end);
    enum gap_kind kind = found && is_behind_post(walk) ? GAP_OTHERS : GAP_LOST;
    if (!found) to = anchor;
    if (kind == GAP_LOST) walk->glibc->checks.lost_bytes += to - from;
    walk->at = to;
    walk->last = 0;
    walk->attempts = 0;
    return chunk_map_add_gap(&walk->heap->chunks, from, to, kind);
}

// Goes back some chunks, more each time, and forgets what was read of them.
static void read_again(struct walk *walk) {
    struct chunk_map *chunks = &walk->heap->chunks;
    uint64_t floor = chunks->gap_count ? chunks->gaps[chunks->gap_count - 1].end : walk->heap->start,
             back = walk->at;
    for (int i = 0; i < 8 << (3 * walk->attempts) && back > floor; i++) {
        uint64_t before = chunk_map_before(chunks, back);
        if (before < floor) break;
        back = before;
    }
    uint64_t before = back > floor ? chunk_map_before(chunks, back) : 0;
    chunk_map_cut(chunks, back, walk->at + 1 < walk->heap->end ? walk->at + 1 : walk->heap->end);
    // Posts lie between the two where the one before does not reach the other: it then says nothing.
    walk->last = 0;
    if (before >= floor && before) chunk_map_set_kind(chunks, before, CHUNK_LIVE), walk->last = before;
    walk->at = back;
    walk->attempts++;
    walk->window_start = 0;
    space_window_refresh(&walk->window);
    walk->glibc->checks.read_again++;
}

static bool go_on(struct walk *walk) {
    if (walk->at > walk->bad_at + SPACE_WINDOW_BYTES) walk->attempts = 0;
    walk->bad_at = walk->at;
    if (walk->attempts < ATTEMPTS && glibc_spend(walk->glibc, EFFORT_WINDOW)) {
        read_again(walk);
        return true;
    }
    return skip(walk);
}

static bool walk_heap(struct walk *walk) {
    for (;;) {
        switch (take(walk)) {
        case STEP_ON: break;
        case STEP_END: return true;
        case STEP_NO_MEMORY: return false;
        case STEP_BAD:
            if (!go_on(walk)) return false;
        }
    }
}

// ---- which heaps there are ----

static int follow(struct glibc *glibc, struct glibc_heap *heap, struct ht_error *error) {
    struct walk *walk = malloc(sizeof *walk);
    if (!walk) return ht_error_memory(error, "walk", "a window");
    *walk =
        (struct walk){.glibc = glibc, .heap = heap, .arena = &glibc->arenas[heap->arena], .at = heap->start};
    space_window_open(&walk->window, glibc->space, &heap->runs);
    glibc->effort += heap->runs.bytes / EFFORT_BYTES;
    bool enough = walk_heap(walk);
    glibc->checks.walked_bytes += walk->at - heap->mapped_start;
    free(walk);
    return enough ? 0 : ht_error_memory(error, "walk", "gaps");
}

// The map of a heap takes a 64th of it, in RAM or not: of one that is as good as empty nobody would believe the size.
static bool is_worth_a_map(const struct glibc_heap *heap) {
    uint64_t bytes = heap->end - heap->start;
    return heap->start + CHUNK_BYTES_MIN <= heap->end &&
           (bytes <= HEAP_BYTES_SMALL || bytes / HEAP_SPARSE <= heap->runs.bytes);
}

// What is not walked is counted as lost.
static int walk_stretch(struct glibc *glibc, uint64_t mapped_start, uint64_t start, uint64_t end,
                        size_t arena, struct ht_error *error) {
    const uint64_t page = SPACE_PAGE_BYTES - 1, unit = CHUNK_UNIT_BYTES - 1;
    if (!ht_grow(&glibc->heaps, &glibc->heap_room, glibc->heap_count + 1, sizeof *glibc->heaps))
        return ht_error_memory(error, "walk", "heaps");
    struct glibc_heap *heap = &glibc->heaps[glibc->heap_count];
    *heap = (struct glibc_heap){
        .start = (start + unit) & ~unit, .end = end, .mapped_start = mapped_start, .arena = arena};
    if (space_runs_add(glibc->space, mapped_start & ~page, (end + page) & ~page, &heap->runs, error))
        return -1;
    if (is_worth_a_map(heap) && chunk_map_open(&heap->chunks, heap->start, end)) {
        glibc->heap_count++;
        return follow(glibc, heap, error);
    }
    glibc->checks.lost_bytes += heap->runs.bytes;
    chunk_map_free(&heap->chunks);
    space_runs_free(&heap->runs);
    return 0;
}

static bool is_of_brk(const struct space *space, const struct space_mapping *mapping) {
    return space_is_core(space) ? mapping->anonymous && mapping->writable : !strcmp(mapping->name, "[heap]");
}

// What brk gave, from where malloc first took it: mappings that lie side by side. A core has no name for them.
static int walk_brk(struct glibc *glibc, struct ht_error *error) {
    const struct space *space = glibc->space;
    const struct space_mapping *first = NULL, *all_end = space->mappings + space->mapping_count;
    for (const struct space_mapping *at = space->mappings; !first && at < all_end; at++)
        if (is_of_brk(space, at) &&
            (!glibc->settings || (at->start <= glibc->sbrk_base && at->end > glibc->sbrk_base)))
            first = at;
    if (!first) return 0;
    const struct space_mapping *last = first;
    while (last + 1 < all_end && last[1].start == last->end && is_of_brk(space, last + 1)) last++;
    uint64_t start = glibc->settings ? glibc->sbrk_base : first->start;
    return walk_stretch(glibc, start, start, last->end, 0, error);
}

// A list of heaps may lead back to one of them, or into what brk gave.
static bool is_new(struct glibc *glibc, uint64_t heap) {
    uint64_t place = heap / glibc->heap_bytes_max, bit = UINT64_C(1) << place % 64;
    const struct glibc_heap *main = glibc->heaps;  // which is the first
    if (heap >> 47) return false;                  // where none is mapped without asking for it
    if (glibc->heap_count && main->arena == 0 && heap < main->end &&
        heap + glibc->heap_bytes_max > main->mapped_start)
        return false;
    bool seen = glibc->heaps_seen[place / 64] & bit;
    glibc->heaps_seen[place / 64] |= bit;
    return !seen;
}

// From an arena's newest heap to its first: {arena, heap before, bytes in use}.
static int walk_arena(struct glibc *glibc, size_t number, struct ht_error *error) {
    const struct glibc_layout *layout = glibc->layout;
    uint64_t arena = glibc->arenas[number].address,
             heap = glibc->arenas[number].top & ~(glibc->heap_bytes_max - 1);
    while (heap) {
        uint64_t header[3];
        const struct space_mapping *mapping = space_mapping_at(glibc->space, heap);
        if (!mapping || !space_read_all(glibc->space, heap, header, sizeof header) || header[0] != arena ||
            !is_new(glibc, heap))
            return 0;
        uint64_t end = heap + header[2], first = heap + layout->heap_header_bytes;
        if (header[2] > glibc->heap_bytes_max || header[2] % SPACE_PAGE_BYTES || header[2] < SPACE_PAGE_BYTES)
            return 0;
        if (arena == first) first += layout->arena.all;
        if (walk_stretch(glibc, heap, first, end, number, error)) return -1;
        heap = header[1] % glibc->heap_bytes_max ? 0 : header[1];
    }
    return 0;
}

int glibc_walk_piece(struct glibc *glibc, uint64_t start, uint64_t end, struct ht_error *error) {
    return walk_stretch(glibc, start, start, end, 0, error);
}

static bool is_listed(const struct glibc *glibc, uint64_t arena) {
    for (size_t i = 0; i < glibc->arena_count; i++)
        if (glibc->arenas[i].address == arena) return true;
    return false;
}

static int list_arenas(struct glibc *glibc, struct ht_error *error) {
    uint64_t address = glibc->main_arena;
    do {
        if (!ht_grow(&glibc->arenas, &glibc->arena_room, glibc->arena_count + 1, sizeof *glibc->arenas))
            return ht_error_memory(error, "walk", "arenas");
        struct glibc_arena *arena = &glibc->arenas[glibc->arena_count];
        if (!glibc_read_arena(glibc, address, arena)) break;
        glibc->checks.system_bytes += arena->system_bytes;
        glibc->checks.locked_arenas += arena->locked;
        glibc->arena_count++;
        if (!space_read_all(glibc->space, address + glibc->layout->arena.next, &address, sizeof address))
            break;
    } while (!is_listed(glibc, address) && glibc->arena_count < GLIBC_ARENAS_MAX);
    return 0;
}

int glibc_walk_heaps(struct glibc *glibc, struct ht_error *error) {
    glibc->heaps_seen = calloc((UINT64_C(1) << 47) / glibc->heap_bytes_max / 64, sizeof *glibc->heaps_seen);
    if (!glibc->heaps_seen) return ht_error_memory(error, "walk", "heaps");
    if (list_arenas(glibc, error) || walk_brk(glibc, error)) return -1;
    for (size_t i = 1; i < glibc->arena_count; i++)
        if (walk_arena(glibc, i, error)) return -1;
    return 0;
}
