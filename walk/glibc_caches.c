// SPDX-License-Identifier: Apache-2.0
// Free chunks that look like live ones to a walk: those in threads' caches and in fastbins. A cache is a chunk of the heap:
// it is found by its size and by what its lists hold, an empty one by the thread that points at it.
#include <stdlib.h>
#include <string.h>

#include "glibc.h"
#include "grow.h"
#include "sorted.h"

enum {
    CACHE_BINS_MAX = 76,
    CACHE_BYTES_MAX = 1024,
    SMALL_BINS = 64,
    FAST_LENGTH_MAX = 1 << 28,
    CHUNK_HEADER_BYTES = 16,
    // A thread's control block lies at the end of its stack, its variables of the C library before that.
    STACK_END_BYTES = 64 << 10,
    THREAD_DATA_BYTES = 4096,
    THREADS_OF_MAPPING_MAX = 16,
};

struct cache {
    uint64_t chunk;
    uint64_t key;    // of its first chunks, 0: unknown
    uint32_t lists;  // that are not empty
    bool is_sound, is_found;
};

// Each bin's first block, and how many there are at most.
struct lists {
    uint64_t heads[CACHE_BINS_MAX];
    uint16_t counts[CACHE_BINS_MAX];
};

struct search {
    struct glibc *glibc;
    struct cache *caches;
    size_t count;
};

static bool is_chunk(const struct glibc *glibc, uint64_t chunk) {
    const struct glibc_heap *heap = glibc_heap_at(glibc, chunk);
    return heap && chunk_map_has(&heap->chunks, chunk);
}

// Whether a chunk of that bin begins before the block: the bins behind the small ones hold several sizes.
static bool is_of_bin(const struct glibc *glibc, uint64_t block, int bin) {
    uint64_t chunk = block - CHUNK_HEADER_BYTES, small = (uint64_t)(bin + 2) * CHUNK_UNIT_BYTES;
    const struct glibc_heap *heap = block % CHUNK_UNIT_BYTES ? NULL : glibc_heap_at(glibc, chunk);
    if (!heap || !chunk_map_has(&heap->chunks, chunk)) return false;
    uint64_t most = (SMALL_BINS + 2) * CHUNK_UNIT_BYTES, bytes = chunk_map_bytes(&heap->chunks, chunk, most);
    return bytes == (bin < SMALL_BINS ? small : most);
}

static bool read_lists(const struct glibc *glibc, uint64_t chunk, struct lists *lists) {
    const struct glibc_layout *layout = glibc->layout;
    uint8_t bytes[CACHE_BYTES_MAX];
    int bins = layout->cache.bins;
    if (!space_read_all(glibc->space, chunk + CHUNK_HEADER_BYTES, bytes, layout->cache.all)) return false;
    memcpy(lists->heads, bytes + layout->cache.all - 8 * (size_t)bins, 8 * (size_t)bins);
    for (int i = 0; i < bins; i++) {
        if (layout->cache.counts_room) lists->counts[i] = UINT16_MAX;
        else if (layout->cache.count_bytes == 1) lists->counts[i] = bytes[i];
        else memcpy(&lists->counts[i], bytes + 2 * i, 2);
    }
    return true;
}

// A cache's lists begin with chunks of their size that have one key; before 2.34 that is the cache's address.
static void check(const struct glibc *glibc, struct cache *cache) {
    struct lists lists;
    if (!read_lists(glibc, cache->chunk, &lists)) return;
    for (int i = 0; i < glibc->layout->cache.bins; i++) {
        if (!lists.heads[i]) {
            if (lists.counts[i] && !glibc->layout->cache.counts_room) return;
            continue;
        }
        uint64_t key = 0;
        if (!is_of_bin(glibc, lists.heads[i], i)) return;
        if (glibc->layout->has_key &&
            (!space_read_all(glibc->space, lists.heads[i] + 8, &key, sizeof key) || !key))
            return;
        if (cache->lists++ && key != cache->key) return;
        cache->key = key;
    }
    cache->is_sound = true;
}

// The key that most lists have (Boyer and Moore's majority): all of a process have the same one since 2.34.
static uint64_t common_key(const struct search *search) {
    uint64_t key = 0;
    size_t votes = 0;
    for (size_t i = 0; i < search->count; i++) {
        const struct cache *cache = &search->caches[i];
        size_t lists = cache->is_sound ? cache->lists : 0;
        if (cache->key == key) votes += lists;
        else if (votes >= lists) votes -= lists;
        else key = cache->key, votes = lists - votes;
    }
    return key;
}

static void accept(struct search *search) {
    enum { ONE_KEY_SINCE = 34 };
    uint64_t key = search->glibc->minor >= ONE_KEY_SINCE ? common_key(search) : 0;
    for (size_t i = 0; i < search->count; i++) {
        struct cache *cache = &search->caches[i];
        uint64_t expected = key                              ? key
                            : search->glibc->layout->has_key ? cache->chunk + CHUNK_HEADER_BYTES
                                                             : 0;
        cache->is_found = cache->is_sound && cache->lists && cache->key == expected;
    }
}

// ---- empty ones ----

static struct cache *cache_at(const struct search *search, uint64_t block) {
    uint64_t chunk = block - CHUNK_HEADER_BYTES;
    size_t found = HT_FIRST_FROM(search->caches, search->count, chunk, chunk);
    return found < search->count && search->caches[found].chunk == chunk ? &search->caches[found] : NULL;
}

// The words before a thread's control block, which points at itself twice.
static bool is_control_block(const uint64_t *word, uint64_t address) {
    return word[0] == address && word[2] == address;
}

// Where before a thread's control block, in words, a pointer to what may be a cache lies.
struct pointer {
    struct cache *cache;
    size_t place;
};

struct pointers {
    struct pointer *pointer;
    size_t count, room;
};

static bool note_pointers(struct pointers *pointers, const struct search *search, const uint64_t *words) {
    for (size_t place = 0; place < THREAD_DATA_BYTES / 8; place++) {
        struct cache *cache = words[place] ? cache_at(search, words[place]) : NULL;
        if (!cache) continue;
        if (!ht_grow(&pointers->pointer, &pointers->room, pointers->count + 1, sizeof *pointers->pointer))
            return false;
        pointers->pointer[pointers->count++] = (struct pointer){cache, place};
    }
    return true;
}

// Looks through a mapping's end, where the stacks of several threads may lie.
static bool note_threads(struct pointers *pointers, const struct search *search, uint64_t start,
                         const uint64_t *words, size_t count) {
    int threads = 0;
    for (size_t i = count - 3; i >= THREAD_DATA_BYTES / 8 && threads < THREADS_OF_MAPPING_MAX; i--) {
        if (!is_control_block(words + i, start + i * 8)) continue;
        threads++;
        if (!note_pointers(pointers, search, words + i - THREAD_DATA_BYTES / 8)) return false;
    }
    return true;
}

static bool find_pointers(struct pointers *pointers, const struct search *search) {
    uint64_t words[(STACK_END_BYTES + THREAD_DATA_BYTES) / 8];
    struct space *space = search->glibc->space;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        if (!glibc_may_map(mapping)) continue;
        uint64_t bytes = mapping->end - mapping->start;
        if (bytes > STACK_END_BYTES) bytes = STACK_END_BYTES;
        struct space_runs runs = {0};
        struct ht_error error;
        if (space_runs_add(space, mapping->end - bytes, mapping->end, &runs, &error)) return false;
        // The data may begin in the mapping's first page: what lies before is read as 0.
        memset(words, 0, sizeof words);
        for (size_t k = 0; k < runs.count; k++)
            (void)space_read(space, runs.run[k].start,
                             (char *)words + THREAD_DATA_BYTES + (runs.run[k].start - (mapping->end - bytes)),
                             runs.run[k].end - runs.run[k].start);
        space_runs_free(&runs);
        if (!note_threads(pointers, search, mapping->end - bytes - THREAD_DATA_BYTES, words,
                          (THREAD_DATA_BYTES + bytes) / 8))
            return false;
    }
    return true;
}

// All threads have the pointer to their cache at the same place: the one where most point at a chunk of that size.
static bool accept_those_of_threads(const struct search *search) {
    struct pointers pointers = {0};
    size_t votes[THREAD_DATA_BYTES / 8] = {0}, best = 0;
    bool enough = find_pointers(&pointers, search);
    for (size_t i = 0; i < pointers.count; i++) votes[pointers.pointer[i].place]++;
    for (size_t place = 1; place < THREAD_DATA_BYTES / 8; place++)
        if (votes[place] > votes[best]) best = place;
    for (size_t i = 0; i < pointers.count; i++)
        if (pointers.pointer[i].place == best) pointers.pointer[i].cache->is_found = true;
    free(pointers.pointer);
    return enough;
}

// ---- lists ----

static uint64_t reveal(const struct glibc *glibc, uint64_t place, uint64_t link) {
    return glibc->layout->hides_links ? place >> 12 ^ link : link;
}

static bool mark(const struct glibc *glibc, uint64_t chunk, enum chunk_kind kind) {
    struct glibc_heap *heap = glibc_heap_at(glibc, chunk);
    if (chunk_map_kind(&heap->chunks, chunk) != CHUNK_LIVE) return false;
    chunk_map_set_kind(&heap->chunks, chunk, kind);
    return true;
}

static void mark_list(struct glibc *glibc, const struct cache *cache, const struct lists *lists, int bin) {
    uint64_t block = lists->heads[bin], words[2];
    int most = lists->counts[bin];
    for (int i = 0; block && i < most; i++) {
        if (!is_of_bin(glibc, block, bin) || !space_read_all(glibc->space, block, words, sizeof words) ||
            (glibc->layout->has_key && words[1] != cache->key) ||
            !mark(glibc, block - CHUNK_HEADER_BYTES, CHUNK_CACHED)) {
            glibc->checks.torn_lists++;
            return;
        }
        block = reveal(glibc, block, words[0]);
    }
}

static void mark_fast(struct glibc *glibc, const struct glibc_arena *arena) {
    for (int bin = 0; bin < GLIBC_FASTBINS; bin++) {
        uint64_t chunk = arena->fastbins[bin], link;
        for (int i = 0; chunk && i < FAST_LENGTH_MAX; i++) {
            uint64_t block = chunk + CHUNK_HEADER_BYTES;
            if (!is_of_bin(glibc, block, bin) || !space_read_all(glibc->space, block, &link, sizeof link) ||
                !mark(glibc, chunk, CHUNK_FAST)) {
                glibc->checks.torn_lists++;
                break;
            }
            chunk = reveal(glibc, block, link);
        }
    }
}

static void keep_found(struct glibc *glibc, const struct search *search) {
    glibc->cache_count = 0;
    for (size_t i = 0; i < search->count; i++) {
        if (!search->caches[i].is_found) continue;
        struct lists lists = {0};
        if (!read_lists(glibc, search->caches[i].chunk, &lists)) glibc->checks.torn_lists++;
        for (int bin = 0; bin < glibc->layout->cache.bins; bin++)
            mark_list(glibc, &search->caches[i], &lists, bin);
        glibc->caches[glibc->cache_count++] = search->caches[i].chunk;
    }
}

int glibc_mark_cached(struct glibc *glibc, struct ht_error *error) {
    struct search search = {glibc, calloc(glibc->cache_count + 1, sizeof(struct cache)), 0};
    if (!search.caches) return ht_error_memory(error, "walk", "thread caches");
    if (glibc->cache_count) qsort(glibc->caches, glibc->cache_count, sizeof *glibc->caches, ht_by_word);
    for (size_t i = 0; i < glibc->cache_count; i++) {
        if (!is_chunk(glibc, glibc->caches[i]) || (i && glibc->caches[i] == glibc->caches[i - 1])) continue;
        struct cache *cache = &search.caches[search.count++];
        cache->chunk = glibc->caches[i];
        check(glibc, cache);
    }
    accept(&search);
    bool enough = accept_those_of_threads(&search);
    keep_found(glibc, &search);
    for (size_t i = 0; i < glibc->arena_count; i++) mark_fast(glibc, &glibc->arenas[i]);
    free(search.caches);
    return enough ? 0 : ht_error_memory(error, "walk", "thread caches");
}

int glibc_walk(struct glibc *glibc, struct ht_error *error) {
    return glibc_walk_heaps(glibc, error) || glibc_find_mapped(glibc, error) ||
                   glibc_mark_cached(glibc, error)
               ? -1
               : 0;
}

void glibc_free(struct glibc *glibc) {
    for (size_t i = 0; i < glibc->arena_count; i++) free(glibc->arenas[i].free_chunks);
    for (size_t i = 0; i < glibc->heap_count; i++) {
        chunk_map_free(&glibc->heaps[i].chunks);
        space_runs_free(&glibc->heaps[i].runs);
    }
    free(glibc->arenas);
    free(glibc->heaps);
    free(glibc->mapped);
    free(glibc->caches);
    free(glibc->heaps_seen);
    *glibc = (struct glibc){0};
}
