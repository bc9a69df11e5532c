#include "site_map.h"

#include "own_memory.h"
#include "sys.h"

enum { SLOTS_MIN = 1 << 10, BYTES_MAX = 192 << 20, PIECE_BYTES = 256 << 10 };

static void *map_memory(size_t bytes) {
    static size_t mapped_bytes;
    if (bytes > BYTES_MAX - mapped_bytes || !recorder_may_call()) return NULL;
    void *at = sys_map_memory(bytes);
    if (at) own_map((uintptr_t)at, bytes);
    if (at) mapped_bytes += bytes;
    recorder_has_called();
    return at;
}

void *site_memory(size_t bytes) {
    static char *at, *end;
    bytes = (bytes + 7) & ~(size_t)7;
    if (bytes > (size_t)(end - at)) {
        char *piece = bytes <= PIECE_BYTES ? map_memory(PIECE_BYTES) : NULL;
        if (!piece) return NULL;
        at = piece;
        end = piece + PIECE_BYTES;
    }
    at += bytes;
    return at - bytes;
}

static bool grow(struct site_map *map) {
    struct site_slots *old = map->slots;
    uint64_t room = SLOTS_MIN, live = 0;
    for (uint64_t i = 0; old && i <= old->mask; i++) live += old->slot[i].value != 0;
    while (room < 4 * live) room *= 2;
    struct site_slots *fresh = map_memory(sizeof *fresh + room * sizeof *fresh->slot);
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

bool site_map_put(struct site_map *map, uint64_t key, uint64_t value) {
    struct site_slots *slots = map->slots;
    if ((!slots || 2 * map->count > slots->mask) && !grow(map)) return false;
    slots = map->slots;
    uint64_t i = key >> 1 & slots->mask;
    while (slots->slot[i].key && slots->slot[i].key != key) i = (i + 1) & slots->mask;
    map->count += slots->slot[i].key == 0;
    atomic_store_explicit(&slots->slot[i].value, value, memory_order_release);
    atomic_store_explicit(&slots->slot[i].key, key, memory_order_release);
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
