// How far the live large blocks have been filled. A program fills a large block bit by bit, long after it was
// allocated: so with each sample of memory the kernel is asked, and growth is recorded.
#include "residency.h"
#include "large_blocks.h"
#include "settings.h"
#include "sys.h"

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

uint32_t residency_count_pages(const void *block, size_t bytes) {
    enum { PAGES_AT_ONCE = 512 };
    unsigned char present[PAGES_AT_ONCE];
    uintptr_t page = settings.page_bytes, at = (uintptr_t)block & ~(page - 1);
    uintptr_t end = ((uintptr_t)block + bytes + page - 1) & ~(page - 1);
    uint32_t pages = 0;
    if (!recorder_may_call()) return 0;
    while (at < end) {
        size_t count = (end - at) / page < PAGES_AT_ONCE ? (end - at) / page : PAGES_AT_ONCE;
        if (sys_mincore(at, count * page, present)) break;  // ENOMEM: not mapped, so not resident
        for (size_t i = 0; i < count; i++) pages += present[i] & 1;
        at += count * page;
    }
    recorder_has_called();
    return pages + 1;
}

static void probe_block(struct thread_state *t, const struct large_copy *copy) {
    uint32_t all = large_spanned_pages(copy->block, copy->large.bytes);
    uint32_t step = all / GROWTH_SHARE > GROWTH_PAGES_MIN ? all / GROWTH_SHARE : GROWTH_PAGES_MIN;
    uint32_t resident = residency_count_pages(copy->block, copy->large.bytes);
    if (!resident) return;
    uint32_t pages = resident - 1;
    // The last few pages get their record as well.
    if (pages < copy->large.reported || pages - copy->large.reported < (pages >= all ? 1 : step)) return;
    if (!large_report(copy, pages)) return;
    uint64_t word[3] = {stamp_now(), (uint64_t)(uintptr_t)copy->block, pages};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_RESIDENT_SO_FAR, word, 3);
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
    atomic_flag_clear(&probing.taken);
    probing.credit_stamps = CREDIT_STAMPS_MAX;
}
