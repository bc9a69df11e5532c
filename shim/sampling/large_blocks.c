// SPDX-License-Identifier: Apache-2.0
// The live blocks of 16 KiB and more: an open-addressing table under a spin lock, and a counting filter that
// lets free() skip it. Such blocks are rare; the filter is one byte load on the fast path.
#include "large_blocks.h"
#include "own_ranges.h"
#include "settings.h"
#include "sys.h"
#include "watch_budget.h"

uint8_t large_filter[1 << LARGE_FILTER_BITS];

struct entry {
    uintptr_t block;  // 0 empty
    struct large_block large;
};

enum {
    LOCK_TRIES_MAX = 1 << 14,
    SEARCHED_MAX = 4096,  // entries, before others may have the lock
    // So many blocks below that size, that the filter still turns most of the others away.
    WATCHED_BELOW_BYTES = 64 << 10,
    WATCHED_BELOW_MAX = 2048
};

static struct {
    atomic_flag lock;
    struct entry *entry;
    size_t room, count;  // room is a power of two
    bool abandoned;      // its holder will never come back
} table = {.lock = ATOMIC_FLAG_INIT};

// The lock is held for a table's growth at most. A thread that still cannot have it, because it is a signal
// handler that interrupted the holder, does without: that block's residency stays unknown.
static bool lock(void) {
    for (unsigned tries = 0; atomic_flag_test_and_set_explicit(&table.lock, memory_order_acquire); tries++) {
        if (tries == LOCK_TRIES_MAX) table.abandoned = true;
        if (table.abandoned) return false;
        if (recorder_may_call()) {
            sys_yield();
            recorder_has_called();
        }
    }
    return true;
}
static void unlock(void) { atomic_flag_clear_explicit(&table.lock, memory_order_release); }

static uint64_t hash(uintptr_t block) { return block * UINT64_C(0x9e3779b97f4a7c15); }
static uint8_t *filter_of(uintptr_t block) { return &large_filter[hash(block) >> (64 - LARGE_FILTER_BITS)]; }
static size_t home(uintptr_t block) { return (size_t)(hash(block) >> 20) & (table.room - 1); }

static void put(uintptr_t block, struct large_block large) {
    size_t i = home(block);
    while (table.entry[i].block && table.entry[i].block != block) i = (i + 1) & (table.room - 1);
    table.count += table.entry[i].block == 0;
    table.entry[i] = (struct entry){block, large};
}

static bool grow(void) {
    size_t old_room = table.room, room = old_room ? old_room * 2 : 256;
    struct entry *old = table.entry;
    if (!recorder_may_call()) return false;
    void *fresh = sys_map_memory(room * sizeof *old);
    if (fresh) {
        own_map((uintptr_t)fresh, room * sizeof *old);  // nor is it the program's heap
        table.entry = fresh;
        table.room = room;
        table.count = 0;
        for (size_t i = 0; i < old_room; i++)
            if (old[i].block) put(old[i].block, old[i].large);
        if (old) {
            own_unmap((uintptr_t)old, old_room * sizeof *old);
            sys_munmap(old, old_room * sizeof *old);
        }
    }
    recorder_has_called();
    return fresh != NULL;
}

bool large_is_watched(size_t bytes, uint64_t stamp) {
    if (bytes >= WATCHED_BELOW_BYTES || table.count < WATCHED_BELOW_MAX)
        return watch_is_affordable(bytes, stamp);
    watch_pass(bytes);
    return false;
}

void large_add(const void *block, struct large_block large) {
    uintptr_t key = (uintptr_t)block;
    if (large.resident) large.reported = large.resident - 1;
    if (!lock()) return;
    // Where the table cannot grow the block is forgotten: its residency stays unknown.
    if (2 * table.count < table.room || grow()) {
        uint8_t *filter = filter_of(key);
        put(key, large);
        if (*filter < 255) ++*filter;  // a saturated counter stays
    }
    unlock();
}

// Closes the gap that a removal leaves in its run of entries.
static void close_gap(size_t gap) {
    size_t mask = table.room - 1;
    for (size_t i = (gap + 1) & mask; table.entry[i].block; i = (i + 1) & mask) {
        size_t wanted = home(table.entry[i].block);
        if (((i - wanted) & mask) < ((i - gap) & mask)) continue;
        table.entry[gap] = table.entry[i];
        gap = i;
    }
    table.entry[gap] = (struct entry){0};
}

struct large_block large_remove(const void *block) {
    uintptr_t key = (uintptr_t)block;
    struct large_block large = {0};
    if (!lock()) return large;
    for (size_t i = table.room ? home(key) : 0; table.room && table.entry[i].block;
         i = (i + 1) & (table.room - 1)) {
        if (table.entry[i].block != key) continue;
        large = table.entry[i].large;
        uint8_t *filter = filter_of(key);
        if (*filter < 255) --*filter;
        close_gap(i);
        table.count--;
        break;
    }
    unlock();
    return large;
}

uint32_t large_spanned_pages(const void *block, size_t bytes) {
    uintptr_t page = settings.page_bytes, start = (uintptr_t)block / page;
    size_t pages = ((uintptr_t)block + bytes + page - 1) / page - start;
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

// The first two passes, and every fourth: most blocks that stay as they are for so long are never filled.
static bool is_turn(uint32_t passes) { return passes <= 2 || passes % 4 == 0; }

size_t large_unfilled(size_t *place, struct large_copy *copy, size_t room) {
    size_t count = 0, i = *place;
    *place = 0;
    if (!lock()) return 0;
    for (size_t end = i + SEARCHED_MAX; i < table.room && i < end && count < room; i++) {
        struct entry *entry = &table.entry[i];
        const void *block = (const void *)entry->block;
        if (block && entry->large.reported < large_spanned_pages(block, entry->large.bytes) &&
            is_turn(++entry->large.passes))
            copy[count++] = (struct large_copy){block, entry->large};
    }
    if (i < table.room) *place = i;
    unlock();
    return count;
}

bool large_report(const struct large_copy *copy, uint32_t pages) {
    uintptr_t key = (uintptr_t)copy->block;
    if (!lock()) return false;
    size_t i = home(key), mask = table.room - 1;
    while (table.entry[i].block && table.entry[i].block != key) i = (i + 1) & mask;
    struct large_block *large = &table.entry[i].large;
    bool same =
        table.entry[i].block && large->bytes == copy->large.bytes && large->reported == copy->large.reported;
    if (same) {
        large->reported = pages;
        large->passes = 0;
    }
    unlock();
    return same;
}

// Where a block may begin whose whole pages begin there: with them, before them behind a header as glibc's mapped ones, or in
// their first one.
void large_emptied(const void *from) {
    enum { HEADER_BYTES = 16 };
    const uintptr_t at = (uintptr_t)from,
                    begins[] = {at, at - settings.page_bytes + HEADER_BYTES, at + HEADER_BYTES};
    for (unsigned i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (!large_maybe((const void *)begins[i]) || !lock()) continue;
        size_t mask = table.room - 1, place = table.room ? home(begins[i]) : 0;
        while (table.room && table.entry[place].block && table.entry[place].block != begins[i])
            place = (place + 1) & mask;
        if (table.room && table.entry[place].block)
            table.entry[place].large.reported = table.entry[place].large.passes = 0;
        unlock();
    }
}

void large_after_fork(void) {
    // A thread that exists no more may have held the lock, in the midst of a change. Blocks that are missing
    // then have no residency.
    atomic_flag_clear(&table.lock);
    // The child's log has nothing yet.
    for (size_t i = 0; i < table.room; i++) table.entry[i].large.reported = 0;
}

void large_each(void (*visit)(void *context, const void *block, const struct large_block *large),
                void *context) {
    if (!lock()) return;
    for (size_t i = 0; i < table.room; i++)
        if (table.entry[i].block) visit(context, (const void *)table.entry[i].block, &table.entry[i].large);
    unlock();
}
