// SPDX-License-Identifier: Apache-2.0
#include "large_blocks.h"

#include "chunks.h"
#include "clock.h"
#include "own_ranges.h"
#include "settings.h"
#include "sys.h"

// ---- which are measured ----
//
// That takes a microsecond and more at a block's birth and at its end, where a recorded call takes some nanoseconds: so it may
// take one part in so many of the run.

enum {
    WATCH_COST_SHARE = 32,
    // So much is saved up, or owed, of the time that it takes.
    SAVED_US_MAX = 1000,
    OWED_US_MAX = 1000,
    // A block of a size that was not measured for so many times what it takes is measured on credit.
    RARE_SHARE = 1024,
    SKIPS = 15,
    LIKELY_TIMES = 4,
    // Classes of sizes: eight an octave, from the smallest large block on.
    LEAST_BITS = 14,
    OCTAVES = 24,
    CLASSES = OCTAVES * 8,
    // A block of this octave and above needs nothing saved.
    FREE_OCTAVE = 8
};
_Static_assert(1 << LEAST_BITS == HT_LARGE_BLOCK_BYTES, "the first class");
#define STAMPS_PER_US ((uint64_t)STAMPS_PER_S / 1000000)
#define SAVED_STAMPS  (SAVED_US_MAX * STAMPS_PER_US * WATCH_COST_SHARE)
#define OWED_STAMPS   (OWED_US_MAX * STAMPS_PER_US * WATCH_COST_SHARE)

struct watch_skips watch_skips;

static struct run_share measuring = {.parts = WATCH_COST_SHARE, .saved_stamps_max = SAVED_STAMPS};
static _Atomic uint64_t last_measured[CLASSES];

static unsigned octave_of(size_t bytes) {
    unsigned octave = 63u - (unsigned)__builtin_clzll(bytes) - LEAST_BITS;
    return octave < OCTAVES ? octave : OCTAVES - 1;
}

static unsigned class_of(size_t bytes) {
    unsigned octave = octave_of(bytes);
    return octave * 8 + (unsigned)(bytes >> (octave + LEAST_BITS - 3) & 7);
}

// At its birth and its end: a system call for each megabyte, and 8 ns a page.
static uint64_t likely_stamps(size_t bytes) { return (2 + (bytes >> 18)) * STAMPS_PER_US; }

// It is not measured, nor are the next of its size.
static void watch_pass(size_t bytes) {
    watch_skips.below_bytes = bytes + bytes / 2;
    watch_skips.left = SKIPS;
}

// Is this block, which is allocated now, to be measured? Larger ones, and those of a size that was not measured for long,
// come first.
static bool watch_is_affordable(size_t bytes, uint64_t stamp) {
    _Atomic uint64_t *last = &last_measured[class_of(bytes)];
    unsigned octave = octave_of(bytes);
    uint64_t needed = octave < FREE_OCTAVE ? SAVED_STAMPS / 2 / FREE_OCTAVE * (FREE_OCTAVE - octave) : 0;
    uint64_t paid = share_paid_until(&measuring, stamp);
    bool saved = paid + needed <= stamp,
         rare = stamp >= atomic_load_explicit(last, memory_order_relaxed) + RARE_SHARE * likely_stamps(bytes);
    if (saved || (rare && paid <= stamp + OWED_STAMPS)) {
        atomic_store_explicit(last, stamp, memory_order_relaxed);
        watch_skips.left = 0;
        return true;
    }
    watch_pass(bytes);
    return false;
}

// Measuring it took the counts of the clock since then.
static void watch_pay(size_t bytes, uint64_t before_counts) {
    share_pay(&measuring, before_counts, LIKELY_TIMES * likely_stamps(bytes));
}

// ---- the table ----
//
// An open-addressing table under a spin lock, and a counting filter that lets free() skip it. Such blocks are rare; the filter
// is one byte load on the fast path.

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
    // If the table cannot grow, the block is forgotten: its residency stays unknown.
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

// Pages that a block lies in.
static uint32_t large_spanned_pages(const void *block, size_t bytes) {
    uintptr_t page = settings.page_bytes, start = (uintptr_t)block / page;
    size_t pages = ((uintptr_t)block + bytes + page - 1) / page - start;
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

// A copy of some of the blocks that are not full by what was recorded.
struct large_copy {
    const void *block;
    struct large_block large;
};

// The first two passes, and every fourth: most blocks that stay as they are for so long are never filled.
static bool is_turn(uint32_t passes) { return passes <= 2 || passes % 4 == 0; }

// Copies blocks that are not full, from a place in the table on, and moves the place on: to 0 at the table's end. One that has
// not been reported for a while is left out three times of four.
static size_t large_unfilled(size_t *place, struct large_copy *copy, size_t room) {
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

// The block as it was copied has so many pages resident now, and that will be recorded. False if it is no more.
static bool large_report(const struct large_copy *copy, uint32_t pages) {
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

// A block whose whole pages begin there may begin in three places: with them, before them behind a header as glibc's mapped
// ones, or in their first one.
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

// ---- what is resident ----
//
// A program fills a large block bit by bit, long after it was allocated: so with each sample of memory the kernel is asked, and
// growth is recorded.

enum {
    // Probing may take one part in so many of the run, which may be saved up for some time.
    PROBE_COST_SHARE = 100,
    PORTION_BLOCKS = 4,
    // The least change for a record: so many pages, and one part in so many of the block.
    GROWTH_PAGES_MIN = 4,
    GROWTH_SHARE = 64
};
// Probing a larger block would stall the program for a millisecond and more.
#define PROBE_BYTES_MAX   (UINT64_C(256) << 20)
#define CREDIT_STAMPS_MAX ((int64_t)(STAMPS_PER_S / 1000))

// One thread probes at a time.
static struct {
    atomic_flag taken;
    size_t place;  // in the table of large blocks
    int64_t credit_stamps;
    uint64_t last_stamp;
} probing = {.taken = ATOMIC_FLAG_INIT, .credit_stamps = CREDIT_STAMPS_MAX};

// Pages that follow one another. A block with more runs than these is told by its parts: as if in each the first pages were
// resident, as many as are.
enum { RUNS_MAX = 16 };
struct run {
    uint32_t first, pages;
};
struct pages_seen {
    uintptr_t start;  // the page that the block begins in
    uint32_t all, pages;
    uint32_t runs;  // may be more than there is room for
    uint32_t open;  // where the last one begins, plus one; 0: it has ended
    struct run run[RUNS_MAX];
};

static void begin_or_end_run(struct pages_seen *seen, uint32_t page) {
    if (!seen->open) {
        seen->open = page + 1;
        return;
    }
    struct run run = {seen->open - 1, page + 1 - seen->open};
    if (seen->runs < RUNS_MAX) seen->run[seen->runs] = run;
    seen->runs++;
    seen->pages += run.pages;
    seen->open = 0;
}

static struct pages_seen look_at(uintptr_t start, uint32_t pages) {
    enum { PAGES_AT_ONCE = 256 };  // on the program's stack
    unsigned char present[PAGES_AT_ONCE];
    struct pages_seen seen = {.start = start, .all = pages};
    for (uint32_t done = 0; done < pages;) {
        uint32_t count = pages - done < PAGES_AT_ONCE ? pages - done : PAGES_AT_ONCE;
        // ENOMEM: not mapped, so not resident.
        if (sys_mincore(start + done * settings.page_bytes, count * settings.page_bytes, present)) {
            pages = done;
            break;
        }
        for (uint32_t i = 0; i < count; i++)
            if ((present[i] & 1) != (seen.open != 0)) begin_or_end_run(&seen, done + i);
        done += count;
    }
    if (seen.open) begin_or_end_run(&seen, pages);
    return seen;
}

// False if it is not known.
static bool see_block(struct pages_seen *seen, const void *block, size_t bytes) {
    if (!recorder_may_call()) return false;
    *seen =
        look_at((uintptr_t)block & ~(uintptr_t)(settings.page_bytes - 1), large_spanned_pages(block, bytes));
    recorder_has_called();
    return true;
}

uint32_t residency_count_pages(struct thread_state *t, const void *block, size_t bytes) {
    struct pages_seen seen;
    uint64_t before = clock_counter();
    uint32_t pages = see_block(&seen, block, bytes) ? seen.pages + 1 : 0;
    upkeep_took(t->recording->header, before);
    return pages;
}

uint32_t residency_at_birth(struct thread_state *t, const void *block, size_t bytes) {
    uint64_t before = clock_counter();
    uint32_t pages = residency_count_pages(t, block, bytes);
    large_add(block, (struct large_block){bytes, pages});
    watch_pay(bytes, before);
    return pages;
}

// The least change of a block for a record.
static uint32_t least_step(const struct pages_seen *seen) {
    return seen->all / GROWTH_SHARE > GROWTH_PAGES_MIN ? seen->all / GROWTH_SHARE : GROWTH_PAGES_MIN;
}

static struct run part_of(const struct pages_seen *seen, uint32_t part) {
    uint32_t first = (uint32_t)((uint64_t)part * seen->all / RUNS_MAX);
    uint32_t end = (uint32_t)(((uint64_t)part + 1) * seen->all / RUNS_MAX);
    struct run run = {.first = first};
    if (!recorder_may_call()) return run;
    run.pages = look_at(seen->start + first * settings.page_bytes, end - first).pages;
    recorder_has_called();
    return run;
}

// Are they the first pages of the block? A few at its end, such as what an allocator keeps behind it, do not count.
static bool fills_from_start(const struct pages_seen *seen) {
    uint32_t first = seen->runs && seen->run[0].first == 0 ? seen->run[0].pages : 0;
    return seen->pages - first < least_step(seen);
}

static void put_pages(struct thread_state *t, const void *block, const struct pages_seen *seen,
                      uint64_t stamp) {
    uint64_t word[5] = {stamp, (uint64_t)(uintptr_t)block, seen->pages};
    if (fills_from_start(seen)) {
        if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_RESIDENT_SO_FAR, word, 3);
        return;
    }
    bool listed = seen->runs <= RUNS_MAX;
    for (uint32_t i = 0; i < (listed ? seen->runs : RUNS_MAX); i++) {
        struct run run = listed ? seen->run[i] : part_of(seen, i);
        word[3] = run.first;
        word[4] = run.pages;
        if (run.pages && room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_RESIDENT_SO_FAR, word, 5);
    }
}

uint32_t residency_at_end(struct thread_state *t, const void *block, const struct large_block *large,
                          uint64_t stamp) {
    struct pages_seen seen;
    // All of it was touched; what was given back since makes that no less.
    if (large->reported >= large_spanned_pages(block, large->bytes)) return large->reported + 1;
    uint64_t before = clock_counter();
    bool known = see_block(&seen, block, large->bytes);
    if (known && seen.pages > large->reported && !fills_from_start(&seen)) put_pages(t, block, &seen, stamp);
    watch_pay(large->bytes, before);
    upkeep_took(t->recording->header, before);
    return known ? seen.pages + 1 : 0;
}

static void probe_block(struct thread_state *t, const struct large_copy *copy) {
    struct pages_seen seen;
    if (!see_block(&seen, copy->block, copy->large.bytes)) return;
    // The last few pages get their record as well.
    uint32_t step = seen.pages >= seen.all ? 1 : least_step(&seen);
    if (seen.pages < copy->large.reported || seen.pages - copy->large.reported < step) return;
    if (large_report(copy, seen.pages)) put_pages(t, copy->block, &seen, stamp_now());
}

static void earn_credit(uint64_t stamp) {
    // Stamps of several threads may come in any order.
    if (stamp > probing.last_stamp && probing.last_stamp)
        probing.credit_stamps += (int64_t)((stamp - probing.last_stamp) / PROBE_COST_SHARE);
    if (stamp > probing.last_stamp) probing.last_stamp = stamp;
    if (probing.credit_stamps > CREDIT_STAMPS_MAX) probing.credit_stamps = CREDIT_STAMPS_MAX;
}

void residency_probe(struct thread_state *t, uint64_t stamp) {
    struct large_copy copy[PORTION_BLOCKS];
    if (atomic_flag_test_and_set(&probing.taken)) return;
    earn_credit(stamp);
    // To the table's end at most; where it is too long for that, the next probe goes on.
    for (bool more = true; more && probing.credit_stamps > 0; more = probing.place != 0) {
        uint64_t started_ns = clock_thread_cpu_ns();
        size_t count = large_unfilled(&probing.place, copy, PORTION_BLOCKS);
        for (size_t i = 0; i < count; i++)
            if (copy[i].large.bytes <= PROBE_BYTES_MAX) probe_block(t, &copy[i]);
        probing.credit_stamps -= cpu_stamps_since(started_ns);
    }
    atomic_flag_clear(&probing.taken);
}

static void note_at_exit(struct thread_state *t, const void *block, const struct large_block *large) {
    uint64_t stamp = stamp_now();
    uint32_t resident = residency_at_end(t, block, large, stamp);
    uint64_t word[3] = {stamp, (uint64_t)(uintptr_t)block, resident - 1};
    if (resident && room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_RESIDENT_AT_EXIT, word, 3);
}

void residency_at_exit(struct thread_state *t) {
    if (!lock()) return;
    for (size_t i = 0; i < table.room; i++)
        if (table.entry[i].block) note_at_exit(t, (const void *)table.entry[i].block, &table.entry[i].large);
    unlock();
}

void large_after_fork(void) {
    // A thread that exists no more may have held the lock, in the midst of a change. Blocks that are missing
    // then have no residency.
    atomic_flag_clear(&table.lock);
    // The child's log has nothing yet.
    for (size_t i = 0; i < table.room; i++) table.entry[i].large.reported = 0;
    atomic_flag_clear(&probing.taken);
    probing.credit_stamps = CREDIT_STAMPS_MAX;
    watch_skips.left = 0;  // stamps go on in the child: what is paid is known there
}
