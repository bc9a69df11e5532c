#include "map64.h"

#include <stdlib.h>

bool map64_init(struct map64 *map) {
    map->bits = 10;
    map->count = 0;
    map->entry = calloc((size_t)1 << map->bits, sizeof *map->entry);
    return map->entry != NULL;
}

void map64_free(struct map64 *map) {
    free(map->entry);
    map->entry = NULL;
}

bool map64_grow(struct map64 *map) {
    struct map64 larger = {.bits = map->bits + 1, .count = map->count};
    larger.entry = calloc((size_t)1 << larger.bits, sizeof *larger.entry);
    if (!larger.entry) return false;
    for (size_t i = 0; i < (size_t)1 << map->bits; i++)
        if (map64_has(map, i)) larger.entry[map64_find(&larger, map->entry[i].key)] = map->entry[i];
    free(map->entry);
    *map = larger;
    return true;
}

void map64_remove_at(struct map64 *map, size_t gap) {
    size_t mask = ((size_t)1 << map->bits) - 1;
    for (size_t i = (gap + 1) & mask; map64_has(map, i); i = (i + 1) & mask) {
        size_t home = map64_home(map, map->entry[i].key);
        // An entry may fill the gap only if its home does not lie between the gap and itself.
        if (((i - home) & mask) < ((i - gap) & mask)) continue;
        map->entry[gap] = map->entry[i];
        gap = i;
    }
    map->entry[gap].key = 0;
    map->count--;
}
