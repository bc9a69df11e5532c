// SPDX-License-Identifier: Apache-2.0
#include "site_map.h"

#include "process_memory.h"
#include "settings.h"
#include "sys.h"

enum {
    SLOTS_MIN = 1 << 10,
    BYTES_MAX = 56 << 20,
    ADDRESS_BYTES_MAX = 1 << 30,
    PIECE_BYTES = 256 << 10,
    UNSURE_BYTES_MAX = 1 << 20  // of more than programs with few stacks need, all will be used
};

// Bytes of address space, of those that have not been given back, and of those that are not sparse.
static size_t address_bytes, mapped_bytes, dense_bytes;

// The address space is the program's: where it is limited we take a small part. Pages that were given back still occupy it.
static bool is_within_limits(size_t bytes) {
    enum { PART = 32 };
    uint64_t space = sys_limit(RLIMIT_AS), data = sys_limit(RLIMIT_DATA), limit = space < data ? space : data;
    return limit == RLIM_INFINITY || address_bytes + bytes <= limit / PART;
}

static void *map_memory(size_t bytes, bool is_sparse) {
    if (bytes > BYTES_MAX - mapped_bytes || bytes > ADDRESS_BYTES_MAX - address_bytes || !recorder_may_call())
        return NULL;
    bool is_real = !is_sparse && dense_bytes >= UNSURE_BYTES_MAX;
    void *at = !is_within_limits(bytes) ? NULL : is_real ? sys_map_real_memory(bytes) : sys_map_memory(bytes);
    if (at) {
        recorder_memory_mapped((uintptr_t)at, bytes, is_real);
        mapped_bytes += bytes;
        address_bytes += bytes;
        if (!is_sparse) dense_bytes += bytes;
    }
    recorder_has_called();
    return at;
}

void *site_memory_mapped(size_t bytes) { return map_memory(bytes, false); }
void *site_memory_sparse(size_t bytes) { return map_memory(bytes, true); }

// Whole pages that lie in there; 0 bytes: none.
static uintptr_t whole_pages(const void *at, size_t *bytes) {
    uintptr_t page = settings.page_bytes, start = ((uintptr_t)at + page - 1) & ~(page - 1),
              end = ((uintptr_t)at + *bytes) & ~(page - 1);
    *bytes = end > start ? end - start : 0;
    return start;
}

void site_memory_release(void *at, size_t bytes) {
    uintptr_t start = whole_pages(at, &bytes);
    if (!bytes || !recorder_may_call()) return;
    if (!sys_madvise((void *)start, bytes, MADV_DONTNEED)) {
        mapped_bytes -= bytes;
        recorder_memory_released(start, bytes, false);
    }
    recorder_has_called();
}

void site_memory_unmap(void *at, size_t bytes) {
    uintptr_t start = whole_pages(at, &bytes);
    if (!bytes || !recorder_may_call()) return;
    recorder_memory_released(start, bytes, true);
    if (!sys_munmap((void *)start, bytes)) mapped_bytes -= bytes;
    recorder_has_called();
}

// Whoever leaves this by a jump loses memory, and nothing else.
void *site_memory(size_t bytes) {
    static char *at;
    static size_t left_bytes;
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > left_bytes) {
        char *piece = bytes <= PIECE_BYTES ? site_memory_mapped(PIECE_BYTES) : NULL;
        if (!piece) return NULL;
        left_bytes = 0;
        atomic_signal_fence(memory_order_seq_cst);
        at = piece;
        atomic_signal_fence(memory_order_seq_cst);
        left_bytes = PIECE_BYTES;
    }
    left_bytes -= bytes;
    atomic_signal_fence(memory_order_seq_cst);
    at += bytes;
    return at - bytes;
}

// False: there is no memory.
static bool grow(struct site_map *map) {
    struct site_slots *old = map->slots;
    uint64_t room = SLOTS_MIN, live = 0;
    for (uint64_t i = 0; old && i <= old->mask; i++) live += old->slot[i].value != 0;
    while (room < 4 * live) room *= 2;
    struct site_slots *fresh = site_memory_mapped(sizeof *fresh + room * sizeof *fresh->slot);
    if (!fresh) return false;
    fresh->mask = room - 1;
    map->count = 0;
    for (uint64_t i = 0; old && i <= old->mask; i++) {
        uint64_t key = old->slot[i].key, value = old->slot[i].value, at = key >> 1 & fresh->mask;
        if (!key || !value) continue;
        while (fresh->slot[at].key) at = (at + 1) & fresh->mask;
        fresh->slot[at].value = value;
        fresh->slot[at].key = key;
        map->count++;
    }
    atomic_store_explicit(&map->slots, fresh, memory_order_release);
    return true;
}

// A try takes as long as the map is large: where one was refused, only the 1st, 2nd, 4th, 8th ... key after it tries again.
static bool try_grow(struct site_map *map) {
    bool is_tried = !(map->refused & (map->refused - 1)), grows = is_tried && grow(map);
    map->refused = grows ? 0 : map->refused + 1;
    return grows;
}

// The place where the key is, or may be put.
static struct site_slot *slot_for(struct site_slots *slots, uint64_t key) {
    uint64_t i = key >> 1 & slots->mask;
    while (slots->slot[i].key && slots->slot[i].key != key) i = (i + 1) & slots->mask;
    return &slots->slot[i];
}

bool site_map_put(struct site_map *map, uint64_t key, uint64_t value) {
    struct site_slot *slot = map->slots ? slot_for(map->slots, key) : NULL;
    if (!slot || !slot->key) {
        if ((!slot || 2 * map->count > map->slots->mask) && !try_grow(map)) return false;
        slot = slot_for(map->slots, key);
        map->count++;
    }
    atomic_store_explicit(&slot->value, value, memory_order_release);
    atomic_store_explicit(&slot->key, key, memory_order_release);
    return true;
}

void site_map_sweep(struct site_map *map, bool (*goes)(uint64_t key, uint64_t value)) {
    struct site_slots *slots = map->slots;
    for (uint64_t i = 0; slots && i <= slots->mask; i++) {
        uint64_t key = slots->slot[i].key, value = slots->slot[i].value;
        if (key && value && goes(key, value))
            atomic_store_explicit(&slots->slot[i].value, 0, memory_order_release);
    }
}
