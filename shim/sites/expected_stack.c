// SPDX-License-Identifier: Apache-2.0
#include "expected_stack.h"

#include <stddef.h>
#include <string.h>

#include "site_map.h"

enum { TABLES = 64, PLACES = 1 << 14, PATHS_AT_PLACE = 2, PATHS_MAX = 1 << 16 };

// One mapping, of which what is used becomes real.
static struct memory {
    _Atomic uint16_t last[PLACES][PATHS_AT_PLACE];  // that were kept there
    struct expected_path path[PATHS_MAX];           // in the order in which they were kept
} *memory;
static _Atomic uint32_t kept = 1;
typedef struct expected_line table_lines[1 << EXPECTED_LINE_BITS];
// Tables of threads, each made as one begins.
static struct expected_line *_Atomic tables[TABLES];
static _Atomic bool has_all_tables;

const struct expected_path *expected_paths;

void expected_start(void) {
    memory = site_memory_sparse(sizeof *memory);
    if (memory) expected_paths = memory->path;
}

static struct expected_line *make_table(struct expected_line *_Atomic *place) {
    struct expected_line *fresh = site_memory_sparse(sizeof(table_lines)), *other = NULL;
    if (!fresh || atomic_compare_exchange_strong(place, &other, fresh)) return fresh;
    site_memory_unmap(fresh, sizeof(table_lines));
    return other;
}

// Threads may come and go without end. Those that share a table, as all new ones do where there is no memory for more, expect
// the wrong stack more often, and nothing else. A handler may begin meanwhile: what it has set never becomes NULL.
bool expected_begin(struct expectation *expectation) {
    static _Atomic uint32_t begun;
    struct expected_line *_Atomic *place = &tables[atomic_fetch_add(&begun, 1) % TABLES];
    struct expected_line *table = memory ? *place : NULL;
    if (memory && !table && !has_all_tables) table = make_table(place);
    if (!table) table = tables[0];
    if (table) expectation->table = table;
    return table;
}

static bool same(const struct expected_path *one, const struct tree_found *found) {
    size_t from = offsetof(struct tree_path, to_end);
    return expected_site(one) == found->site &&
           !memcmp((const char *)&one->path + from, (const char *)&found->path + from,
                   sizeof found->path - from);
}

// The number of the path as it is kept; 0: it is not. A path that others read is never written again, but for its `changes`.
static uint16_t keep(const struct tree_found *found) {
    if (found->path.words > TREE_PATH_MAX) return 0;
    // A site has one path for each distance to the stack's end. If several took turns at one place, each turn would use up a
    // path.
    _Atomic uint16_t *last = memory->last[site_mix(found->site, found->path.to_end) / 2 % PLACES];
    for (unsigned i = 0; i < PATHS_AT_PLACE; i++) {
        uint16_t number = atomic_load_explicit(&last[i], memory_order_acquire);
        if (!number || !same(&memory->path[number], found)) continue;
        memory->path[number].path.changes = found->path.changes;
        return number;
    }
    uint32_t at = atomic_load_explicit(&kept, memory_order_relaxed);
    if (at >= PATHS_MAX || !atomic_compare_exchange_strong(&kept, &at, at + 1)) return 0;
    struct expected_path *path = &memory->path[at];
    path->path = found->path;
    path->modifier_bytes = ht_encode_modifier(HT_MODIFIER_SITE, found->site, &path->modifier);
    atomic_store_explicit(&last[at % PATHS_AT_PLACE], (uint16_t)at, memory_order_release);
    return (uint16_t)at;
}

void expected_other(const struct expectation *expectation, const struct tree_found *found) {
    uint16_t number = expectation->table ? keep(found) : 0;
    if (number) *expected_number(expectation, found->hash) = number;
}

void expected_give_up_space(void) {
    has_all_tables = true;
    // From now on none is kept behind those that have a place.
    uint32_t end = memory ? atomic_exchange(&kept, PATHS_MAX) : PATHS_MAX;
    if (end < PATHS_MAX) site_memory_unmap(&memory->path[end], (PATHS_MAX - end) * sizeof *memory->path);
}
