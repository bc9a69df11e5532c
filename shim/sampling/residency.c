// SPDX-License-Identifier: Apache-2.0
// How far the live large blocks have been filled. A program fills a large block bit by bit, long after it was
// allocated: so with each sample of memory the kernel is asked, and growth is recorded.
#include "residency.h"

#include "chunks.h"
#include "settings.h"
#include "sys.h"
#include "watch_budget.h"

enum {
    // Probing may take one part in so many of the run, which may be saved up for some time.
    COST_SHARE = 100,
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
        probing.credit_stamps += (int64_t)((stamp - probing.last_stamp) / COST_SHARE);
    if (stamp > probing.last_stamp) probing.last_stamp = stamp;
    if (probing.credit_stamps > CREDIT_STAMPS_MAX) probing.credit_stamps = CREDIT_STAMPS_MAX;
}

// CPU time: a thread that was preempted has not cost more.
static int64_t stamps_since(uint64_t started_ns) {
    return (int64_t)((clock_thread_cpu_ns() - started_ns) * (STAMPS_PER_S / 1000000) / 1000);
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
        probing.credit_stamps -= stamps_since(started_ns);
    }
    atomic_flag_clear(&probing.taken);
}

void residency_after_fork(void) {
    watch_after_fork();
    atomic_flag_clear(&probing.taken);
    probing.credit_stamps = CREDIT_STAMPS_MAX;
}
