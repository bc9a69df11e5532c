// How far the live large blocks have been filled. A program fills a large block bit by bit, long after it was
// allocated: so with each sample of memory the kernel is asked, and the log told where it has grown.
#include "memory.h"
#include "settings.h"
#include "sys.h"

enum {
    // Looking may take one part in so many of the run, which may be saved up for some time.
    COST_SHARE = 100,
    PORTION_BLOCKS = 4,
    // What is worth telling: so many pages, and one part in so many of the block.
    GROWTH_PAGES_MIN = 4,
    GROWTH_SHARE = 64
};
// A look at a larger block would stall the program for a millisecond and more.
#define LOOK_BYTES_MAX    (UINT64_C(256) << 20)
#define CREDIT_STAMPS_MAX ((int64_t)(STAMPS_PER_S / 1000))

// One thread looks at a time.
static struct {
    atomic_flag taken;
    size_t place;  // in the table of large blocks
    int64_t credit_stamps;
    uint64_t last_stamp;
} looking = {.taken = ATOMIC_FLAG_INIT, .credit_stamps = CREDIT_STAMPS_MAX};

uint32_t residency_pages(const void *block, size_t bytes) {
    uintptr_t page = settings.page_bytes, start = (uintptr_t)block / page;
    size_t pages = ((uintptr_t)block + bytes + page - 1) / page - start;
    return pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX;
}

static void look_at(struct thread_state *t, const struct large_copy *copy) {
    uint32_t all = residency_pages(copy->block, copy->large.bytes);
    uint32_t step = all / GROWTH_SHARE > GROWTH_PAGES_MIN ? all / GROWTH_SHARE : GROWTH_PAGES_MIN;
    uint32_t resident = memory_resident_pages(copy->block, copy->large.bytes);
    if (!resident) return;
    uint32_t pages = resident - 1;
    // The last few pages are told as well.
    if (pages < copy->large.told || pages - copy->large.told < (pages >= all ? 1 : step)) return;
    if (!large_tell(copy, pages)) return;
    uint64_t word[3] = {stamp_now(), (uint64_t)(uintptr_t)copy->block, pages};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_RESIDENT_SO_FAR, word, 3);
}

static void earn_credit(uint64_t stamp) {
    // Stamps of several threads may come in any order.
    if (stamp > looking.last_stamp && looking.last_stamp)
        looking.credit_stamps += (int64_t)((stamp - looking.last_stamp) / COST_SHARE);
    if (stamp > looking.last_stamp) looking.last_stamp = stamp;
    if (looking.credit_stamps > CREDIT_STAMPS_MAX) looking.credit_stamps = CREDIT_STAMPS_MAX;
}

// CPU time: a thread that was preempted has not cost more.
static int64_t stamps_since(uint64_t started_ns) {
    return (int64_t)((clock_thread_cpu_ns() - started_ns) * (STAMPS_PER_S / 1000000) / 1000);
}

void residency_look(struct thread_state *t, uint64_t stamp) {
    struct large_copy copy[PORTION_BLOCKS];
    if (atomic_flag_test_and_set(&looking.taken)) return;
    earn_credit(stamp);
    // To the table's end at most; where it is too long for that, the next look goes on.
    for (bool more = true; more && looking.credit_stamps > 0; more = looking.place != 0) {
        uint64_t started_ns = clock_thread_cpu_ns();
        size_t count = large_unfilled(&looking.place, copy, PORTION_BLOCKS);
        for (size_t i = 0; i < count; i++)
            if (copy[i].large.bytes <= LOOK_BYTES_MAX) look_at(t, &copy[i]);
        looking.credit_stamps -= stamps_since(started_ns);
    }
    atomic_flag_clear(&looking.taken);
}

void residency_after_fork(void) {
    atomic_flag_clear(&looking.taken);
    looking.credit_stamps = CREDIT_STAMPS_MAX;
}
