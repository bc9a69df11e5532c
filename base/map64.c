// SPDX-License-Identifier: Apache-2.0
#include "map64.h"

#include <sys/mman.h>

enum { ROOM_AT_FIRST = 1024, ROOM_STEP = 256 };  // entries; a step is a page
// A small map is doubled at half full: its memory does not count, and searches are shorter.
enum { ROOM_OF_SMALL = 1 << 20 };

static size_t bytes_of(const struct map64 *map) { return map->room * sizeof *map->entry; }

static void set_room(struct map64 *map, size_t room) {
    map->room = room;
    map->count_max = room <= ROOM_OF_SMALL ? room / 2 : room / 10 * 7;
}

// Zeroed pages straight from the kernel, huge ones where it allows: every search is a random access, and
// with small pages most of them would miss the TLB.
static bool allocate(struct map64 *map) {
    void *table = mmap(NULL, bytes_of(map), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map->entry = table == MAP_FAILED ? NULL : table;
    if (map->entry) madvise(table, bytes_of(map), MADV_HUGEPAGE);
    return map->entry != NULL;
}

bool map64_init(struct map64 *map) {
    *map = (struct map64){0};
    set_room(map, ROOM_AT_FIRST);
    return allocate(map);
}

void map64_free(struct map64 *map) {
    if (map->entry) munmap(map->entry, bytes_of(map));
    map->entry = NULL;
}

// Puts an entry between its home and the table's end; false if there is no room, which would mean going round
// to the start.
static bool place_without_wrap(struct map64 *map, struct map64_entry entry) {
    size_t i = map64_home(map, entry.key);
    while (i < map->room && map64_has(map, i)) i++;
    if (i == map->room) return false;
    map->entry[i] = entry;
    return true;
}

// Grows the table where it stands. An entry's home moves towards the end, so going from the last entry to the first,
// each goes to a part of the table that has been emptied already. The few for which that is not so, at the table's
// start and where a run reaches its end, wait until everything else is in place.
bool map64_grow(struct map64 *map) {
    size_t old_room = map->room, old_bytes = bytes_of(map), waiting = 0;
    size_t more = old_room <= ROOM_OF_SMALL ? old_room : old_room / 4 / ROOM_STEP * ROOM_STEP;
    size_t room = old_room + more;
    size_t waiting_bytes = map->count * sizeof *map->entry;
    // Half grown there is no way back: so there is room for all of them from the start. Only what is used of
    // it becomes memory.
    struct map64_entry *waits =
        mmap(NULL, waiting_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (waits == MAP_FAILED) return false;
    void *larger = mremap(map->entry, old_bytes, room * sizeof *map->entry, MREMAP_MAYMOVE);
    if (larger == MAP_FAILED) {
        munmap(waits, waiting_bytes);
        return false;
    }
    map->entry = larger;
    set_room(map, room);
    madvise(larger, bytes_of(map), MADV_HUGEPAGE);
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

// How far `to` lies after `from`, going round.
static size_t distance(const struct map64 *map, size_t from, size_t to) {
    return to >= from ? to - from : to + map->room - from;
}

void map64_remove_at(struct map64 *map, size_t gap) {
    for (size_t i = map64_after(map, gap); map64_has(map, i); i = map64_after(map, i)) {
        // An entry may fill the gap only if its home does not lie between the gap and itself.
        if (distance(map, map64_home(map, map->entry[i].key), i) < distance(map, gap, i)) continue;
        map->entry[gap] = map->entry[i];
        gap = i;
    }
    map->entry[gap].key = 0;
    map->count--;
}
