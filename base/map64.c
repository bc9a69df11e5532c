// SPDX-License-Identifier: Apache-2.0
#include "map64.h"

#include <sys/mman.h>

static size_t bytes_of(const struct map64 *map) { return ((size_t)1 << map->bits) * sizeof *map->entry; }

// Zeroed pages straight from the kernel, huge ones where it allows: every search is a random access, and
// with small pages most of them would miss the TLB.
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

// Puts an entry between its home and the table's end; false if there is no room, which would mean going round
// to the start.
static bool place_without_wrap(struct map64 *map, struct map64_entry entry) {
    size_t room = (size_t)1 << map->bits, i = map64_home(map, entry.key);
    while (i < room && map64_has(map, i)) i++;
    if (i == room) return false;
    map->entry[i] = entry;
    return true;
}

// Doubles the table where it stands. An entry's home moves from i to 2i or 2i + 1, so going from the last
// entry to the first, each goes to a part of the table that has been emptied already. The few for which that
// is not so, at the table's start and where a run reaches its end, wait until everything else is in place.
bool map64_grow(struct map64 *map) {
    size_t old_room = (size_t)1 << map->bits, old_bytes = bytes_of(map), waiting = 0;
    size_t waiting_bytes = map->count * sizeof *map->entry;
    // Half grown there is no way back: so there is room for all of them from the start. Only what is used of
    // it becomes memory.
    struct map64_entry *waits =
        mmap(NULL, waiting_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (waits == MAP_FAILED) return false;
    void *larger = mremap(map->entry, old_bytes, 2 * old_bytes, MREMAP_MAYMOVE);
    if (larger == MAP_FAILED) {
        munmap(waits, waiting_bytes);
        return false;
    }
    map->entry = larger;
    madvise(larger, 2 * old_bytes, MADV_HUGEPAGE);
    map->bits++;
    for (size_t i = old_room; i-- > 0;) {
        struct map64_entry entry = map->entry[i];
        if (!entry.key) continue;
        map->entry[i].key = 0;
        if (map64_home(map, entry.key) <= i || !place_without_wrap(map, entry)) waits[waiting++] = entry;
    }
    for (size_t i = 0; i < waiting; i++) map->entry[map64_find(map, waits[i].key)] = waits[i];
    munmap(waits, waiting_bytes);
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
