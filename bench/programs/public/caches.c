// SPDX-License-Identifier: Apache-2.0
// Stores of values that come, go and are replaced.
#include "public_case.h"

enum { READERS = 4, CACHED = 1400, READS = 4000, KEYS = 60000, LARGE = 24 };

// A block cache: compressed blocks of 4 to 32 kB are read, kept in the order of their use, and evicted by whoever is next.
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static char *cache[CACHED], *handles[CACHED];
static size_t oldest;
static unsigned spread_bytes = 28000;

static void *read_blocks(void *number) {
    unsigned state = 11U * (unsigned)(intptr_t)number + 2;
    for (int i = 0; i < READS; i++) {
        char *scratch = filled(between(&state, 100, 6000));
        char *block = filled(4000 + drawn(&state) % spread_bytes), *handle = filled(between(&state, 60, 140));
        pthread_mutex_lock(&cache_lock);
        char *evicted = cache[oldest], *old_handle = handles[oldest];
        cache[oldest] = block;
        handles[oldest] = handle;
        oldest = (oldest + 1) % CACHED;
        pthread_mutex_unlock(&cache_lock);
        free(evicted);
        free(old_handle);
        free(scratch);
    }
    return NULL;
}

static void blocks(void) { run_threads(READERS, read_blocks); }

// The same by more threads, and with memtables of 1 MB, each written and flushed by one of them.
static void *write_and_read(void *number) {
    for (int i = 0; i < 3; i++) {
        char *table[4];
        for (int j = 0; j < 4; j++) table[j] = filled(1 << 20);
        if ((intptr_t)number % 2 == 0) read_blocks((void *)((intptr_t)number + 100 * i));
        for (int j = 0; j < 4; j++) free(table[j]);
    }
    return NULL;
}

static void quicksilver(void) {
    spread_bytes = 12000;
    run_threads(4, write_and_read);
}

static char *keys[KEYS], *values[KEYS];

static void load(unsigned *state, size_t count, size_t (*size)(unsigned *)) {
    for (size_t i = 0; i < count; i++) {
        keys[i] = filled(between(state, 20, 40));
        values[i] = filled(size(state));
    }
}

static void drop(size_t key) {
    free(keys[key]);
    free(values[key]);
    keys[key] = values[key] = NULL;
}

// About log-normal: products of drawn factors.
static size_t log_normal(unsigned *state) {
    double size = 130;
    for (int i = 0; i < 6; i++) size *= 0.5 + drawn(state) % 1500 / 1000.0;
    return 1 + (size_t)size;
}

static size_t small_value(unsigned *state) { return between(state, 88, 600); }

static void lognormal(void) {
    unsigned state = 1;
    load(&state, KEYS, log_normal);
    for (int i = 0; i < KEYS; i++) {
        size_t key = drawn(&state) % KEYS;
        free(values[key]);
        values[key] = filled(log_normal(&state));
    }
}

// Keys with a time to live: most of what was loaded is gone two days later.
static void expired(void) {
    unsigned state = 2;
    load(&state, KEYS, small_value);
    for (size_t i = 0; i < KEYS; i++)
        if (drawn(&state) % 10 < 7) drop(i);
    for (size_t i = 0; i < KEYS / 10; i++) free(filled(between(&state, 20, 200)));
}

// Records that grow, each under a hash table that is doubled.
static void hashes(void) {
    unsigned state = 3;
    size_t room = 1024;
    char **table = calloc(room, sizeof *table);
    for (size_t i = 0; i < KEYS; i++) {
        if (i == room) {
            char **wider = calloc(2 * room, sizeof *wider);
            if (!wider || !table) exit(1);
            memcpy(wider, table, room * sizeof *table);
            free(table);
            table = wider;
            room *= 2;
        }
        keys[i] = filled(between(&state, 22, 285));
        values[i] = filled(between(&state, 88, 300));
        table[i] = keys[i];
        if (i % 3 == 0) values[i / 2] = realloc(values[i / 2], 400);
    }
    for (size_t i = 0; i < KEYS; i++)
        if (i % 16) drop(i);
}

// A content store with a budget of bytes: half of it tiny, the rest up to 60 kB, evicted in order.
static void nativelink(void) {
    unsigned state = 4;
    size_t held = 0, sizes[KEYS], last = 0;
    for (size_t i = 0; i < KEYS / 3; i++) {
        sizes[i] = drawn(&state) % 2 ? between(&state, 16, 128) : between(&state, 1000, 60000);
        values[i] = filled(sizes[i]);
        keys[i] = filled(48);  // the index keeps its entry
        for (held += sizes[i]; held > 40 << 20; last++) {
            held -= sizes[last];
            free(values[last]);
        }
    }
}

// Values of 1 to 3 MB, set by several threads that evict the oldest when the budget is exceeded.
static void *set_large(void *number) {
    unsigned state = 23U * (unsigned)(intptr_t)number + 4;
    for (int i = 0; i < 40; i++) {
        char *value = filled(between(&state, 1 << 20, 3 << 20));
        pthread_mutex_lock(&cache_lock);
        char *evicted = cache[oldest % LARGE];
        cache[oldest++ % LARGE] = value;
        pthread_mutex_unlock(&cache_lock);
        free(evicted);
    }
    return NULL;
}

static void large_values(void) { run_threads(READERS, set_large); }

int main(int argc, char **argv) {
    const struct public_case cases[] = {
        {"blocks", blocks}, {"quicksilver", quicksilver}, {"lognormal", lognormal},      {"expired", expired},
        {"hashes", hashes}, {"nativelink", nativelink},   {"large-values", large_values}};
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
