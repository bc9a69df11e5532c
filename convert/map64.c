#include "map64.h"

#include <sys/mman.h>

static size_t bytes_of(const struct map64 *map) { return ((size_t)1 << map->bits) * sizeof *map->entry; }

// Zeroed pages straight from the kernel, huge ones where it allows: every look-up is a random access, and with small
// pages most of them would miss the TLB.
static bool allocate(struct map64 *map) {
    void *table = mmap(NULL, bytes_of(map), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map->entry = table == MAP_FAILED ? NULL : table;
    if (map->entry) madvise(table, bytes_of(map), MADV_HUGEPAGE);
    return map->entry != NULL;
}

bool map64_init(struct map64 *map) {
    *map = (struct map64){.bits = 10};
    return allocate(map);
}

void map64_free(struct map64 *map) {
    if (map->entry) munmap(map->entry, bytes_of(map));
    map->entry = NULL;
}

bool map64_grow(struct map64 *map) {
    struct map64 larger = {.bits = map->bits + 1, .count = map->count};
    if (!allocate(&larger)) return false;
    for (size_t i = 0; i < (size_t)1 << map->bits; i++)
        if (map64_has(map, i)) larger.entry[map64_find(&larger, map->entry[i].key)] = map->entry[i];
    map64_free(map);
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
