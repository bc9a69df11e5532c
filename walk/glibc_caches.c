// SPDX-License-Identifier: Apache-2.0
// Free chunks that look like live ones to a walk: those in threads' caches and in fastbins. A cache is a chunk of the heap:
// it is found by its size and by what its lists hold, an empty one by the thread that points at it.
#include <stdlib.h>
#include <string.h>

#include "glibc.h"
#include "grow.h"

enum {
    CACHE_BINS_MAX = 76,
    CACHE_BYTES_MAX = 1024,
    SMALL_BINS = 64,
    LIST_LENGTH_MAX = 1 << 16,
    FAST_LENGTH_MAX = 1 << 28,
    CHUNK_HEADER_BYTES = 16,
    // A thread's control block lies at the end of its stack, its variables of the C library before that.
    STACK_END_BYTES = 64 << 10,
    THREAD_DATA_BYTES = 4096,
};

struct cache {
    uint64_t chunk;
    uint64_t heads[CACHE_BINS_MAX];
    uint16_t counts[CACHE_BINS_MAX];  // as many at most
    uint64_t key;                     // of its first chunks, 0: unknown
    int lists;                        // that are not empty
    bool is_sound, is_found;
};

struct search {
    struct glibc *glibc;
    struct cache *caches;
    size_t count;
};

static uint64_t chunk_bytes(const struct glibc *glibc, uint64_t chunk) {
    const struct glibc_heap *heap = glibc_heap_at(glibc, chunk);
    return heap && chunk_map_has(&heap->chunks, chunk) ? chunk_map_end_of(&heap->chunks, chunk) - chunk : 0;
}

// Whether a chunk of that bin begins before the block: the bins behind the small ones hold several sizes.
static bool is_of_bin(const struct glibc *glibc, uint64_t block, int bin) {
    uint64_t bytes = block % CHUNK_UNIT_BYTES ? 0 : chunk_bytes(glibc, block - CHUNK_HEADER_BYTES);
    return bin<SMALL_BINS ? bytes == (uint64_t)(bin + 2) * CHUNK_UNIT_BYTES : bytes>(SMALL_BINS + 1) *
           CHUNK_UNIT_BYTES;
}

static bool read_cache(const struct glibc *glibc, struct cache *cache) {
    const struct glibc_layout *layout = glibc->layout;
    uint8_t bytes[CACHE_BYTES_MAX];
    int bins = layout->cache.bins;
    if (!space_read_all(glibc->space, cache->chunk + CHUNK_HEADER_BYTES, bytes, layout->cache.all))
        return false;
    memcpy(cache->heads, bytes + layout->cache.all - 8 * (size_t)bins, 8 * (size_t)bins);
    for (int i = 0; i < bins; i++) {
        if (layout->cache.counts_room) cache->counts[i] = UINT16_MAX;
        else if (layout->cache.count_bytes == 1) cache->counts[i] = bytes[i];
        else memcpy(&cache->counts[i], bytes + 2 * i, 2);
    }
    return true;
}

// A cache's lists begin with chunks of their size that have one key; before 2.34 that is the cache's address.
static void check(const struct glibc *glibc, struct cache *cache) {
    if (!read_cache(glibc, cache)) return;
    for (int i = 0; i < glibc->layout->cache.bins; i++) {
        if (!cache->heads[i]) {
            if (cache->counts[i] && !glibc->layout->cache.counts_room) return;
            continue;
        }
        uint64_t key = 0;
        if (!is_of_bin(glibc, cache->heads[i], i)) return;
        if (glibc->layout->has_key &&
            (!space_read_all(glibc->space, cache->heads[i] + 8, &key, sizeof key) || !key))
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
        size_t lists = cache->is_sound ? (size_t)cache->lists : 0;
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
    size_t low = 0, high = search->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (search->caches[middle].chunk + CHUNK_HEADER_BYTES < block) low = middle + 1;
        else high = middle;
    }
    return low < search->count && search->caches[low].chunk + CHUNK_HEADER_BYTES == block
               ? &search->caches[low]
               : NULL;
}

// The words before a thread's control block, which points at itself twice.
static bool is_control_block(const uint64_t *word, uint64_t address) {
    return word[0] == address && word[2] == address;
}

struct threads {
    uint64_t (*data)[THREAD_DATA_BYTES / 8];
    size_t count, room;
};

static bool note_threads(struct threads *threads, uint64_t start, const uint64_t *words, size_t count) {
    for (size_t i = THREAD_DATA_BYTES / 8; i + 2 < count; i++) {
        if (!is_control_block(words + i, start + i * 8)) continue;
        if (!ht_grow(&threads->data, &threads->room, threads->count + 1, sizeof *threads->data)) return false;
        memcpy(threads->data[threads->count++], words + i - THREAD_DATA_BYTES / 8, THREAD_DATA_BYTES);
    }
    return true;
}

static bool find_threads(const struct glibc *glibc, struct threads *threads) {
    static uint64_t words[(STACK_END_BYTES + THREAD_DATA_BYTES) / 8];
    for (size_t i = 0; i < glibc->space->mapping_count; i++) {
        const struct space_mapping *mapping = &glibc->space->mappings[i];
        if (!glibc_may_map(mapping)) continue;
        uint64_t bytes = mapping->end - mapping->start;
        if (bytes > STACK_END_BYTES) bytes = STACK_END_BYTES;
        struct space_runs runs = {0};
        struct ht_error error;
        if (space_runs_add(glibc->space, mapping->end - bytes, mapping->end, &runs, &error)) return false;
        // The data may begin in the mapping's first page: what lies before is read as 0.
        memset(words, 0, sizeof words);
        for (size_t k = 0; k < runs.count; k++)
            (void)space_read(glibc->space, runs.run[k].start,
                             (char *)words + THREAD_DATA_BYTES + (runs.run[k].start - (mapping->end - bytes)),
                             runs.run[k].end - runs.run[k].start);
        space_runs_free(&runs);
        if (!note_threads(threads, mapping->end - bytes - THREAD_DATA_BYTES, words,
                          (THREAD_DATA_BYTES + bytes) / 8))
            return false;
    }
    return true;
}

// All threads have the pointer to their cache at the same place: the one where most point at a chunk of that size.
static void accept_those_of_threads(struct search *search, const struct threads *threads) {
    size_t best = 0, most = 0;
    for (size_t place = 0; place < THREAD_DATA_BYTES / 8; place++) {
        size_t votes = 0;
        for (size_t i = 0; i < threads->count; i++)
            votes += cache_at(search, threads->data[i][place]) != NULL;
        if (votes > most) most = votes, best = place;
    }
    for (size_t i = 0; most && i < threads->count; i++) {
        struct cache *cache = cache_at(search, threads->data[i][best]);
        if (cache) cache->is_found = true;
    }
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

static void mark_list(struct glibc *glibc, const struct cache *cache, int bin) {
    uint64_t block = cache->heads[bin], words[2];
    int most = cache->counts[bin];
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
        for (int bin = 0; bin < glibc->layout->cache.bins; bin++) mark_list(glibc, &search->caches[i], bin);
        glibc->caches[glibc->cache_count++] = search->caches[i].chunk;
    }
}

static int by_address(const void *a, const void *b) {
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

int glibc_mark_cached(struct glibc *glibc, struct ht_error *error) {
    struct search search = {glibc, calloc(glibc->cache_count + 1, sizeof(struct cache)), 0};
    struct threads threads = {0};
    if (!search.caches) return ht_error_memory(error, "walk", "thread caches");
    if (glibc->cache_count) qsort(glibc->caches, glibc->cache_count, sizeof *glibc->caches, by_address);
    for (size_t i = 0; i < glibc->cache_count; i++) {
        if (!chunk_bytes(glibc, glibc->caches[i]) || (i && glibc->caches[i] == glibc->caches[i - 1]))
            continue;
        struct cache *cache = &search.caches[search.count++];
        cache->chunk = glibc->caches[i];
        check(glibc, cache);
    }
    accept(&search);
    bool enough = find_threads(glibc, &threads);
    if (enough) accept_those_of_threads(&search, &threads);
    keep_found(glibc, &search);
    for (size_t i = 0; i < glibc->arena_count; i++) mark_fast(glibc, &glibc->arenas[i]);
    free(threads.data);
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
    *glibc = (struct glibc){0};
}
