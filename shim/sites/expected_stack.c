#include "expected_stack.h"

#include <string.h>

#include "site_map.h"

enum { TABLES = 64, PLACES = 1 << 14, PATHS_AT_PLACE = 2, PATHS_MAX = 1 << 16, KEYS = 1 << 12 };

typedef const struct tree_path *followers_table[1 << FOLLOWERS_BITS];

// One mapping, of which what is used becomes real.
static struct memory {
    struct tree_path path[PATHS_MAX];  // in the order in which they were kept
    followers_table followers[TABLES];
    struct tree_path *_Atomic last[PLACES][PATHS_AT_PLACE];  // that were kept there
    const struct tree_path *_Atomic recent[KEYS];  // the last one that a hook with such a key came by
} *memory;

void expected_start(void) { memory = site_memory_mapped(sizeof *memory); }

// Threads may come and go without end. Those that share a table expect the wrong stack more often, and nothing else.
void expected_begin(struct expectation *expectation) {
    static _Atomic uint32_t begun;
    if (memory) expectation->followers = memory->followers[atomic_fetch_add(&begun, 1) % TABLES];
}

static bool same_words(const struct tree_path *one, const struct tree_path *other) {
    return one->site == other->site && one->address == other->address && one->to_thread == other->to_thread &&
           one->count == other->count && !memcmp(one->word, other->word, sizeof one->word);
}

// As it is kept; NULL: it is not. A path that others read is never written again, but for its `changes`.
static const struct tree_path *keep(const struct tree_path *path) {
    static _Atomic uint32_t kept;
    if (!memory || path->count > TREE_PATH_MAX) return NULL;
    // A site has one path for each distance of its stack from what libc knows of the thread. Where several took turns at one
    // place, each turn would use up a path.
    struct tree_path *_Atomic *last = memory->last[site_mix(path->site, path->to_thread) / 2 % PLACES];
    for (unsigned i = 0; i < PATHS_AT_PLACE; i++) {
        struct tree_path *known = last[i];
        if (!known || !same_words(known, path)) continue;
        known->changes = path->changes;
        return known;
    }
    uint32_t at = atomic_load_explicit(&kept, memory_order_relaxed);
    if (at >= PATHS_MAX || !atomic_compare_exchange_strong(&kept, &at, at + 1)) return NULL;
    struct tree_path *fresh = &memory->path[at];
    memcpy(fresh, path, sizeof *fresh);
    atomic_store_explicit(&last[at % PATHS_AT_PLACE], fresh, memory_order_release);
    return fresh;
}

static const struct tree_path *_Atomic *recent_of(uintptr_t address, uintptr_t to_thread) {
    return &memory->recent[site_mix(address, to_thread) / 2 % KEYS];
}

const struct tree_path *expected_second(uintptr_t cfa) {
    return memory
               ? atomic_load_explicit(recent_of(tree_address(cfa), tree_to_thread(cfa)), memory_order_acquire)
               : NULL;
}

void expected_was(struct expectation *expectation, const struct tree_path *path) {
    if (!expectation->followers) return;
    expectation->followers[expectation->context] = path;
    expected_next(expectation, path);
}

void expected_other(struct expectation *expectation, const struct tree_path *path) {
    if (!expectation->followers) return;
    const struct tree_path *kept = keep(path);
    if (!kept) {
        expected_next(expectation, path);
        return;
    }
    atomic_store_explicit(recent_of(path->address, path->to_thread), kept, memory_order_release);
    expected_was(expectation, kept);
}
