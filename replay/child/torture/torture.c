// SPDX-License-Identifier: Apache-2.0
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "allocator_calls.h"
#include "background_threads.h"
#include "futex_word.h"
#include "raw_clock.h"
#include "rss_probe.h"
#include "single_steps.h"
#include "torture_blocks.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

enum {
    RESIDENTS = 2000,   // blocks that live from the first part to the last
    WORK = 72000,       // blocks of a part: more than 16 bits can number
    THREADS_MAX = 136,  // at once, of which all but a few only come and go
    SHARED = 256,       // that all threads make and end
    LEFT = 40,          // that each thread leaves
    DEPTH_MAX = 400,
    STACK_BYTES = 512 << 10,
    SPINS = 2000,
    STEPS_MAX = 1500,  // through one call
    NOT_DONE = 3
};
static const uint64_t SEED_STEP = 0x9e3779b97f4a7c15;
static const uint64_t part_ns =
    4000000000;  // of CPU time: by then, a part that takes some tenths of a second is cut short

// The slots of some blocks.
struct range {
    uint32_t first, count;
};
static const struct range residents = {1, RESIDENTS}, work = {1 + RESIDENTS, WORK};

static struct range some(uint32_t count) { return (struct range){work.first, count}; }

// A block in a place that is drawn, where the one that lay there ends.
static struct ht_block *put(struct ht_torturer *t, struct range range, enum ht_verified_function function,
                            uint64_t bytes, uint64_t alignment) {
    struct ht_block *block = t->of->blocks + range.first + ht_torture_draw(t, range.count);
    ht_block_end(t, block);
    ht_block_make(t, block, function, bytes, alignment);
    return block;
}

// From the first to the last, or backwards.
static void end_all(struct ht_torturer *t, struct range range) {
    bool backwards = ht_torture_draw(t, 2);
    for (uint32_t i = 0; i < range.count; i++)
        ht_block_end(t, t->of->blocks + range.first + (backwards ? range.count - 1 - i : i));
}

static void check_all(struct ht_torturer *t, struct range range) {
    for (uint32_t i = 0; i < range.count; i++) {
        const struct ht_block *block = t->of->blocks + range.first + i;
        if (block->at) ht_block_check(t, block);
    }
}

// One of the functions that take no alignment, or of all.
static enum ht_verified_function any_function(struct ht_torturer *t, bool aligned) {
    static const enum ht_verified_function list[] = {
        HT_VERIFIED_MALLOC,   HT_VERIFIED_CALLOC,    HT_VERIFIED_REALLOC, HT_VERIFIED_REALLOCARRAY,
        HT_VERIFIED_NEW,      HT_VERIFIED_NEW_ARRAY, HT_VERIFIED_ALIGNED, HT_VERIFIED_ALIGNED_ALLOC,
        HT_VERIFIED_MEMALIGN, HT_VERIFIED_VALLOC,    HT_VERIFIED_PVALLOC, HT_VERIFIED_NEW_ALIGNED};
    const uint64_t unaligned = 6;
    for (;;) {
        enum ht_verified_function function =
            list[ht_torture_draw(t, aligned ? HT_VERIFIED_FUNCTIONS - 1 : unaligned)];
        if (function < HT_VERIFIED_TRACE || t->of->make[function]) return function;
    }
}

// About as many between 2^i and 2^(i+1) for each i.
static uint64_t any_size(struct ht_torturer *t, unsigned bits) {
    uint64_t below = 2ull << ht_torture_draw(t, bits);
    return 1 + ht_torture_draw(t, below);
}

static uint64_t any_alignment(struct ht_torturer *t) { return 8ull << ht_torture_draw(t, 10); }

// Sizes, one by one up to 64 KiB, then next to whole pages and to quarters of powers of two: wherever classes may end.
static void try_sizes(struct ht_torturer *t) {
    static const int beside[] = {-33, -32, -31, -24, -17, -16, -15, -9, -8, -7, -1, 0, 1, 8, 15, 16, 17, 32};
    const uint64_t count = sizeof beside / sizeof *beside, page = 4 * KIB, largest = t->of->most_bytes / 8;
    for (uint64_t bytes = 0; bytes <= 64 * KIB && ht_torture_goes_on(t); bytes++) {
        bool near_edge = (bytes + 1) % 8 < 3;  // larger classes end at a multiple of 8
        if (bytes < 16 * KIB || near_edge) put(t, some(48), HT_VERIFIED_MALLOC, bytes, 0);
    }
    for (uint64_t i = 0; i < 10000 && ht_torture_goes_on(t); i++)
        put(t, some(48), any_function(t, false), i < 3000 ? i : any_size(t, 16), 0);
    for (uint64_t i = 16 * count; i < 512 * count && ht_torture_goes_on(t); i++) {
        enum ht_verified_function function = any_function(t, false);
        if (function == HT_VERIFIED_CALLOC && i % 8) function = HT_VERIFIED_MALLOC;  // all of it is read
        put(t, some(12), function, i / count * page + (uint64_t)beside[i % count], 0);
    }
    end_all(t, some(48));
    for (uint64_t bytes = 2 * MIB; bytes < largest; bytes += (1ull << (63 - __builtin_clzll(bytes))) / 4) {
        for (uint64_t i = 0; i < count && ht_torture_goes_on(t); i += 2)
            put(t, some(3), i ? HT_VERIFIED_MALLOC : any_function(t, false), bytes + (uint64_t)beside[i], 0);
    }
    end_all(t, some(3));
}

// Many of one size at once, ended and made again: the second ones lie where the first did.
static void try_bursts(struct ht_torturer *t) {
    for (uint64_t bytes = 16; bytes <= 32 * KIB; bytes += bytes < 128 ? 16 : bytes / 4) {
        uint64_t count = 2 * MIB / bytes < 400 ? 2 * MIB / bytes : 400;
        for (uint64_t i = 0; i < 2 * count && ht_torture_goes_on(t); i++) {
            if (i == count) end_all(t, some((uint32_t)count));
            ht_block_make(t, t->of->blocks + work.first + i % count, any_function(t, false), bytes - i % 7,
                          0);
        }
        end_all(t, some((uint32_t)count));
    }
}

static bool run_sizes(struct ht_torturer *t) {
    try_sizes(t);
    try_bursts(t);
    return true;
}

static bool run_alignments(struct ht_torturer *t) {
    static const enum ht_verified_function functions[] = {HT_VERIFIED_ALIGNED, HT_VERIFIED_ALIGNED_ALLOC,
                                                          HT_VERIFIED_MEMALIGN, HT_VERIFIED_NEW_ALIGNED};
    static const uint64_t small[] = {1, 24, 100, 1000, 5000, 70000};
    for (uint64_t alignment = 8; alignment <= 2 * MIB; alignment *= 2) {
        const uint64_t near[] = {0, alignment / 2, alignment - 1, alignment, alignment + 1, 3 * alignment};
        for (uint64_t i = 0; i < 4 * 12 && ht_torture_goes_on(t); i++) {
            uint64_t bytes = i / 4 < 6 ? near[i / 4] : small[i / 4 - 6];
            struct ht_block *block = put(t, some(24), functions[i % 4], bytes, alignment);
            put(t, some(24), any_function(t, false), any_size(t, 12), 0);
            if (block->at && block->function < HT_VERIFIED_NEW && i % 3 == 0)
                ht_block_resize(t, block, any_size(t, 17));
        }
    }
    for (uint64_t i = 0; i < 400 && ht_torture_goes_on(t); i++)
        put(t, some(24), i % 2 ? HT_VERIFIED_VALLOC : HT_VERIFIED_PVALLOC, 1 + (i < 40 ? i : any_size(t, 16)),
            0);
    end_all(t, some(24));
    return true;
}

// A block that grows or shrinks step by step, with others that come to lie behind it meanwhile.
static void creep(struct ht_torturer *t, uint64_t from, uint64_t to, uint64_t step) {
    struct ht_block *block = t->of->blocks + work.first;
    ht_block_end(t, block);
    if (!ht_block_make(t, block, HT_VERIFIED_MALLOC, from, 0)) return;
    for (uint64_t i = 0, bytes = from; bytes != to && ht_torture_goes_on(t); i++) {
        uint64_t left = bytes < to ? to - bytes : bytes - to, by = left < step ? left : step;
        bytes = bytes < to ? bytes + by : bytes - by;
        if (!ht_block_resize(t, block, bytes)) break;
        if (i % 8 == 0) put(t, (struct range){work.first + 1, 40}, HT_VERIFIED_MALLOC, any_size(t, 9), 0);
    }
    end_all(t, some(41));
}

static bool run_realloc(struct ht_torturer *t) {
    static const uint64_t sizes[] = {1,     15,    16,     24,     33,     100,    128,     129,    1000,
                                     1024,  1025,  4000,   4096,   5000,   8192,   16385,   20000,  32768,
                                     40000, 65536, 100000, 131072, 200000, 300000, 1048576, 3000000};
    const uint64_t count = sizeof sizes / sizeof *sizes;
    t->all_pages = true;
    for (uint64_t i = 0; i < count * count && ht_torture_goes_on(t); i++) {
        enum ht_verified_function function = any_function(t, true);
        if (function >= HT_VERIFIED_NEW) function = HT_VERIFIED_CALLOC;
        struct ht_block *block = put(t, some(12), function, sizes[i / count], any_alignment(t));
        if (block->at) ht_block_resize(t, block, sizes[i % count]);
        put(t, (struct range){work.first + 12, 40}, any_function(t, false), any_size(t, 12), 0);
        if (block->at && i % 5 == 0) ht_block_resize(t, block, block->pattern.usable + i % 2);
    }
    end_all(t, some(52));
    creep(t, 1, 5000, 1);
    creep(t, 5000, 1, 3);
    creep(t, 4096, 600000, 4099);
    creep(t, 600000, 16, 2049);
    t->all_pages = false;
    struct ht_block *block = put(t, some(1), HT_VERIFIED_MALLOC, 100000, 0);
    while (block->at && block->bytes < t->of->most_bytes / 16 &&
           ht_block_resize(t, block, block->bytes * 7 / 4))
        continue;
    while (block->at && block->bytes > 100 && ht_block_resize(t, block, block->bytes * 3 / 7)) continue;
    end_all(t, some(1));
    return true;
}

// NULL is expected of a size that nobody can give.
static void must_refuse(struct ht_torturer *t, enum ht_verified_function function, size_t count, size_t size,
                        const void *given) {
    const struct ht_block block = {.function = function};
    t->calls++;
    if (given) ht_torture_tell(t, HT_VIOLATION_GIVEN, &block, count, size);
}

// A block that stays as it was.
static void refuse_resize(struct ht_torturer *t, size_t count, size_t size) {
    void *(*array)(void *, size_t, size_t) =
        (void *(*)(void *, size_t, size_t))t->of->make[HT_VERIFIED_REALLOCARRAY];
    struct ht_block *block = t->of->blocks + work.first;
    if (count > 1 && !array) return;
    if (!ht_block_make(t, block, HT_VERIFIED_MALLOC, 100, 0)) return;
    void *given = count > 1 ? array(block->at, count, size) : HT_CALL_REALLOC(block->at, size);
    must_refuse(t, count > 1 ? HT_VERIFIED_REALLOCARRAY : HT_VERIFIED_REALLOC, count, size, given);
    if (given) ht_block_forget(t, block);
    else ht_block_end(t, block);
}

// Of functions that take or mean an alignment: real allocators lack the check.
static void overflow_aligned(struct ht_torturer *t, size_t bytes) {
    for (enum ht_verified_function i = HT_VERIFIED_ALIGNED; i < HT_VERIFIED_REALLOCARRAY; i++) {
        void *(*own)(size_t, size_t) = (void *(*)(size_t, size_t))t->of->make[i], *given = NULL;
        size_t alignment = 32ull << ht_torture_draw(t, 12), whole = bytes / alignment * alignment;
        if (i != HT_VERIFIED_ALIGNED && !own) continue;
        t->calls++;
        if (i == HT_VERIFIED_ALIGNED && HT_CALL_POSIX_MEMALIGN(&given, alignment, bytes)) given = NULL;
        else if (i == HT_VERIFIED_VALLOC || i == HT_VERIFIED_PVALLOC) given = own(bytes, 0);
        else if (i != HT_VERIFIED_ALIGNED) given = own(alignment, i == HT_VERIFIED_MEMALIGN ? bytes : whole);
        if (given) ht_torture_departs(t, HT_DEPARTURE_OVERFLOW, i);
    }
}

// The compiler knows that no call of malloc can get so much.
static size_t unforeseen(size_t bytes) {
    __asm__("" : "+r"(bytes));
    return bytes;
}

static void refuse_sizes(struct ht_torturer *t) {
    static const size_t products[][2] = {{SIZE_MAX, 2},
                                         {SIZE_MAX / 2 + 1, 2},
                                         {SIZE_MAX / 16 + 2, 16},
                                         {(size_t)1 << 32, (size_t)1 << 32},
                                         {((size_t)1 << 32) + 1, (size_t)1 << 32},
                                         {(size_t)1 << 33, (size_t)1 << 30},
                                         {SIZE_MAX, SIZE_MAX},
                                         {3, SIZE_MAX / 3 + 9},
                                         {48, SIZE_MAX / 48 + 1}};
    void *(*nothrow)(size_t, const void *) = (void *(*)(size_t, const void *))t->of->make_nothrow;
    for (uint64_t below = 0; below < 64 && ht_torture_goes_on(t); below++) {
        // The last 33 bytes one by one, then ever farther from the end, then from the middle, which is PTRDIFF_MAX.
        size_t bytes = SIZE_MAX - (below < 33 ? below : (1ull << (below - 28)) - 1);
        if (below >= 56) bytes = PTRDIFF_MAX + 1ull + (below - 56) * 4095;
        bytes = unforeseen(bytes);
        must_refuse(t, HT_VERIFIED_MALLOC, 1, bytes, HT_CALL_MALLOC(bytes));
        must_refuse(t, HT_VERIFIED_CALLOC, 1, bytes, HT_CALL_CALLOC(1, bytes));
        must_refuse(t, HT_VERIFIED_CALLOC, bytes, 1, HT_CALL_CALLOC(bytes, 1));
        refuse_resize(t, 1, bytes);
        if (nothrow) must_refuse(t, HT_VERIFIED_NEW, 1, bytes, nothrow(bytes, ""));
        overflow_aligned(t, bytes);
    }
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        size_t count = products[i][0], size = products[i][1];
        must_refuse(t, HT_VERIFIED_CALLOC, count, size, HT_CALL_CALLOC(count, size));
        must_refuse(t, HT_VERIFIED_CALLOC, size, count, HT_CALL_CALLOC(size, count));
        refuse_resize(t, count, size);
    }
}

// Blocks without bytes are NULL or have an address of their own.
static bool refuse(struct ht_torturer *t) {
    static const size_t odd[] = {0, 1, 2, 4, 12, 24, 100, 4097};
    const uint64_t wide[] = {2048 * MIB + 24, 4096 * MIB + 24};  // beyond 32 bits; written are their edges
    void *given = NULL;
    refuse_sizes(t);
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        put(t, some(1), HT_VERIFIED_MALLOC, wide[i], 0);
        end_all(t, some(1));
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        t->calls++;
        if (HT_CALL_POSIX_MEMALIGN(&given, odd[i], 100) != EINVAL)
            ht_torture_departs(t, HT_DEPARTURE_ALIGNMENT, HT_VERIFIED_ALIGNED);
    }
    for (uint64_t i = 0; i < 200 && ht_torture_goes_on(t); i++)
        put(t, some(60), any_function(t, true), 0, any_alignment(t));
    end_all(t, some(60));
    HT_CALL_FREE(NULL);
    HT_CALL_FREE(HT_CALL_REALLOC(HT_CALL_MALLOC(100), 0));
    const struct ht_block none = {.function = HT_VERIFIED_MALLOC};
    if (t->of->usable_size && t->of->usable_size(NULL))
        ht_torture_tell(t, HT_VIOLATION_USABLE, &none, 0, t->of->usable_size(NULL));
    return true;
}

// Who is given a block writes into it, and looks later whether somebody else has: nothing else is done between the calls, so
// that they meet often.
static void contend_for(struct ht_torturer *t, uint64_t bytes, unsigned depth, unsigned times) {
    struct {
        char *at;
        struct ht_pattern pattern;
    } held[DEPTH_MAX];
    for (unsigned i = 0; i < times && ht_torture_goes_on(t); i++) {
        for (unsigned k = 0; k < depth; k++) {
            held[k].at = HT_CALL_MALLOC(bytes);
            held[k].pattern =
                (struct ht_pattern){.seed = ++t->calls * 64 + t->number, .bytes = HT_PATTERN_SPAN_BYTES / 4};
            if (held[k].at) ht_pattern_fill(&held[k].pattern, held[k].at);
        }
        for (unsigned k = 0; k < depth; k++) {
            unsigned which = i % 2 ? k : depth - 1 - k;
            const struct ht_block block = {.at = held[which].at,
                                           .pattern = held[which].pattern,
                                           .bytes = bytes,
                                           .function = HT_VERIFIED_MALLOC};
            if (block.at) ht_block_holds(t, &block);
            HT_CALL_FREE(block.at);
        }
    }
}

// Memory that grows though as much is freed. Large blocks are kept for a while by some allocators.
static void tell_growth(struct ht_torturer *t, enum ht_verified_function function, uint64_t bytes,
                        uint64_t before, uint64_t freed) {
    const struct ht_block block = {.function = function, .bytes = bytes};
    uint64_t after = ht_torture_resident(t->of), kept = bytes > 64 * KIB ? 6 * MIB : bytes ? MIB : 4 * MIB;
    if (!t->late && after > before + kept + freed / 32)
        ht_torture_tell(t, HT_VIOLATION_NOT_USED, &block, freed, after - before);
}

// Some blocks of a size of which one after another is ended and made again. Once all were, there is room for what follows.
static void use_again(struct ht_torturer *t, enum ht_verified_function function, uint64_t bytes,
                      uint64_t first_bytes) {
    const uint64_t count = 256 * KIB / bytes + 8,
                   times = (bytes > 64 * KIB ? 24 : 6) * MIB / bytes + 4 * count;
    const uint64_t alignment =
        (bytes > 4 * KIB ? 64 : 4) * KIB;  // what lies before the block is given back with it
    uint64_t before = 0;
    if (function >= HT_VERIFIED_TRACE && !t->of->make[function]) return;
    for (uint64_t i = 0; i < 2 * times && ht_torture_goes_on(t); i++) {
        if (i == times) before = ht_torture_resident(t->of);
        struct ht_block *block =
            put(t, some((uint32_t)count), function, first_bytes ? first_bytes : bytes, alignment);
        if (first_bytes && block->at) ht_block_resize(t, block, bytes);
    }
    tell_growth(t, function, bytes, before, times * bytes);
    end_all(t, some((uint32_t)count));
}

// The same of so many small blocks that a few that are lost show.
static void use_small_again(struct ht_torturer *t, uint64_t bytes, uint64_t freed) {
    const unsigned times = (unsigned)(freed / bytes / DEPTH_MAX);
    contend_for(t, bytes, DEPTH_MAX, 8);
    uint64_t before = ht_torture_resident(t->of);
    contend_for(t, bytes, DEPTH_MAX, times);
    tell_growth(t, HT_VERIFIED_MALLOC, bytes, before, freed);
}

// A heap of many blocks, more than 16 bits can number, of which every other block is ended first. Returns how much it takes.
static uint64_t fill_heap(struct ht_torturer *t, uint64_t *resident) {
    const uint64_t most = t->of->most_bytes / 8;
    uint64_t filled = 0;
    for (uint32_t i = 0; i < work.count && ht_torture_goes_on(t); i++) {
        uint64_t bytes = i % 100 || filled > most ? 16 + i % 33 : any_size(t, 17);
        ht_block_make(t, t->of->blocks + work.first + i, HT_VERIFIED_MALLOC, bytes, 0);
        filled += bytes;
    }
    *resident = ht_torture_resident(t->of);
    for (uint32_t i = 0; i < work.count; i += 2) ht_block_end(t, t->of->blocks + work.first + i);
    end_all(t, work);
    return filled;
}

static bool run_reuse(struct ht_torturer *t) {
    static const uint64_t sizes[] = {700, 20000, 300000};
    t->all_pages = true;
    for (enum ht_verified_function function = 0; function < HT_VERIFIED_FUNCTIONS; function++)
        for (size_t i = 0; i < 3; i++)
            if (i < 2 || function <= HT_VERIFIED_ALIGNED) use_again(t, function, sizes[i], 0);
    use_small_again(t, 24, 16 * MIB);
    use_small_again(t, 64, 32 * MIB);
    use_small_again(t, 500, 96 * MIB);
    use_small_again(t, 4000, 256 * MIB);
    use_again(t, HT_VERIFIED_REALLOC, 1200, 100);
    use_again(t, HT_VERIFIED_REALLOC, 150000, 9000);
    use_again(t, HT_VERIFIED_REALLOC, 600000, 200000);
    use_again(t, HT_VERIFIED_REALLOC, 100, 5000);
    struct ht_torture_record *record = &t->of->findings->torture;
    uint64_t first, second, after;
    record->freed_bytes = fill_heap(t, &first);
    after = ht_torture_resident(t->of);
    record->returned_bytes = first > after ? first - after : 0;
    fill_heap(t, &second);
    const struct ht_block heap = {.function = HT_VERIFIED_MALLOC};
    if (second > first + 4 * MIB + record->freed_bytes / 4)
        ht_torture_tell(t, HT_VIOLATION_NOT_USED, &heap, record->freed_bytes, second - first);
    t->all_pages = false;
    return true;
}

// Threads that run at once.
struct worker {
    struct ht_torturer t;
    struct crew *crew;
    pthread_t thread;
    void *stack;
    unsigned steps;  // through the allocator, in this call
};

struct crew {
    void (*body)(struct worker *worker);
    uint32_t count;
    _Atomic uint32_t arrived, round;  // round: a futex
    pthread_key_t key;
    _Atomic uint32_t turn;          // enum duel_turn, a futex
    _Atomic uint64_t bytes;         // of the blocks of a duel
    _Atomic uint32_t busy[SHARED];  // a thread is at the shared block
    struct worker workers[THREADS_MAX];
};

static void next_round(struct crew *crew) {
    atomic_store(&crew->arrived, 0);
    atomic_fetch_add(&crew->round, 1);
    ht_futex_wake(&crew->round);
}

// All threads leave it at once. Those that wait do not keep a processor from the others for long.
static void meet(struct crew *crew) {
    uint32_t round = atomic_load(&crew->round);
    if (atomic_fetch_add(&crew->arrived, 1) + 1 == crew->count) {
        next_round(crew);
        return;
    }
    for (unsigned turns = 0; atomic_load(&crew->round) == round; turns++) {
        if (turns < SPINS) ht_cpu_relax();
        else ht_futex_wait(&crew->round, round);
    }
}

static void *begin(void *argument) {
    struct worker *worker = argument;
    ht_background_not_this_thread();
    while (atomic_load(&worker->crew->round) == 0) ht_futex_wait(&worker->crew->round, 0);
    worker->crew->body(worker);
    ht_torture_add(&worker->t);
    return NULL;
}

static bool start(struct worker *worker) {
    pthread_attr_t attributes;
    if (!worker->stack)
        worker->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (worker->stack == MAP_FAILED) {
        worker->stack = NULL;
        return false;
    }
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, worker->stack, STACK_BYTES);
    bool started = !pthread_create(&worker->thread, &attributes, begin, worker);
    pthread_attr_destroy(&attributes);
    return started;
}

// Returns how many threads there were.
static uint32_t run_crew(struct ht_torturer *t, uint32_t count, void (*body)(struct worker *worker)) {
    struct crew *crew = t->crew;
    struct ht_torture_record *record = &t->of->findings->torture;
    uint32_t started = 0;
    crew->body = body;
    atomic_store(&crew->round, 0);
    for (; started < count; started++) {
        struct worker *worker = &crew->workers[started];
        worker->crew = crew;
        worker->t = (struct ht_torturer){.of = t->of,
                                         .random = ht_torture_draw(t, UINT64_MAX) | 1,
                                         .until_ns = t->until_ns,
                                         .number = started + 1,
                                         .id = (uint32_t)record->threads_ended + started + 1,
                                         .part = t->part};
        if (!start(worker)) break;
    }
    crew->count = started;
    next_round(crew);
    for (uint32_t i = 0; i < started; i++) {
        pthread_join(crew->workers[i].thread, NULL);
        t->late |= crew->workers[i].t.late;
    }
    record->threads_ended += started;
    if (started > record->threads) record->threads = started;
    return started;
}

// The blocks of one thread.
static struct range own_range(const struct worker *worker, uint32_t count) {
    return (struct range){work.first + SHARED + worker->t.number * count, count};
}

// In a process that has called the allocator as little as possible, all threads call each function for the first time at once,
// and then take so much memory that all kinds of tables have to grow.
static void call_first(struct worker *worker) {
    static const uint64_t sizes[] = {24, 1000, 5000, 40000, 300000};
    enum { SIZES = sizeof sizes / sizeof *sizes, BLOCKS = SIZES * HT_VERIFIED_FUNCTIONS, MORE = 400 };
    struct ht_torturer *t = &worker->t;
    struct range mine = own_range(worker, BLOCKS + MORE);
    for (uint32_t i = 0; i < BLOCKS + MORE; i++) {
        uint64_t bytes = i < BLOCKS ? sizes[i % SIZES] : 50 + i % MORE;
        if (i < BLOCKS) meet(worker->crew);
        ht_block_make(t, t->of->blocks + mine.first + i, i < BLOCKS ? i / SIZES : HT_VERIFIED_MALLOC, bytes,
                      64);
    }
    meet(worker->crew);
    end_all(t, mine);
}

static void contend(struct worker *worker) {
    static const uint64_t sizes[] = {16, 48, 128, 500, 1024, 4000, 16000, 33000, 140000, 1100000};
    static const unsigned depths[] = {1, 3, 40, DEPTH_MAX};
    const uint64_t most_bytes = 4 * MIB;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
            unsigned depth = depths[k], calls = sizes[i] <= 4000 ? 12000 : sizes[i] < 100000 ? 2000 : 300;
            meet(worker->crew);
            if (depth * sizes[i] <= most_bytes) contend_for(&worker->t, sizes[i], depth, calls / depth + 2);
        }
    }
}

// A call of any function, on a block that all threads make, resize and end. bytes: near which they are; 0: any.
static void exchange_one(struct worker *worker, uint64_t bytes, unsigned bits) {
    struct ht_torturer *t = &worker->t;
    uint32_t slot = (uint32_t)ht_torture_draw(t, SHARED);
    struct ht_block *block = t->of->blocks + work.first + slot;
    uint64_t wanted = bytes ? bytes - ht_torture_draw(t, 8) : any_size(t, bits);
    if (atomic_exchange(&worker->crew->busy[slot], 1)) return;
    bool resizes = block->at && block->function < HT_VERIFIED_NEW && ht_torture_draw(t, 3) == 0;
    if (resizes) ht_block_resize(t, block, wanted + bytes * ht_torture_draw(t, 2));
    else if (block->at) ht_block_end(t, block);
    else
        ht_block_make(t, block, bytes && t->random % 2 ? HT_VERIFIED_MALLOC : any_function(t, true), wanted,
                      bytes ? 64 : any_alignment(t));
    atomic_store(&worker->crew->busy[slot], 0);
}

static void exchange(struct worker *worker) {
    for (unsigned i = 0; i < 12000 && ht_torture_goes_on(&worker->t); i++)
        exchange_one(worker, 0, i % 40 ? 14 : 18);
}

// Two threads: one goes through the allocator step by step, and stops behind every other instruction until the other has made a
// call. So they meet everywhere, on one processor as well, and not only where the kernel happens to change threads.
enum duel_turn { TURN_FIRST, TURN_SECOND, TURN_OVER };
static __thread struct worker *stepping;

static void stop_there(int number, siginfo_t *information, void *context) {
    (void)number, (void)information;
    const uint64_t patience_ns = 200000;
    struct worker *worker = stepping;
    struct crew *crew = worker->crew;
    int before = errno;
    keep_steps_of(context);
    if (worker->steps++ >= STEPS_MAX) stop_steps_of(context);
    // Who waits for what the first one holds is not waited for.
    if (ht_torture_draw(&worker->t, 2) && atomic_load(&crew->turn) == TURN_FIRST) {
        atomic_store(&crew->turn, TURN_SECOND);
        ht_futex_wake(&crew->turn);
        ht_futex_wait_for(&crew->turn, TURN_SECOND, patience_ns);
    }
    errno = before;
}

static void attack(struct worker *worker) {
    static const uint64_t sizes[] = {24, 200, 1000, 5000, 40000, 100};
    enum { FIRST = 4, WARM = 400, STEPPED = 15 };
    struct ht_torturer *t = &worker->t;
    stepping = worker;
    for (unsigned i = 0; i < 6 * (WARM + STEPPED) && ht_torture_goes_on(t); i++) {
        unsigned call = i % (WARM + STEPPED);
        if (call == 0) atomic_store(&worker->crew->bytes, sizes[i / (WARM + STEPPED)]);
        t->stepped = call < FIRST || call >= WARM;
        worker->steps = 0;
        exchange_one(worker, worker->crew->bytes, 0);
    }
}

static void duel(struct worker *worker) {
    struct crew *crew = worker->crew;
    if (worker->t.number == 1) {
        attack(worker);
        atomic_store(&crew->turn, TURN_OVER);
        ht_futex_wake(&crew->turn);
    }
    for (uint32_t turn; worker->t.number != 1 && (turn = atomic_load(&crew->turn)) != TURN_OVER;) {
        if (turn == TURN_FIRST) {
            ht_futex_wait(&crew->turn, TURN_FIRST);
            continue;
        }
        exchange_one(worker, crew->bytes, 0);
        uint32_t mine = TURN_SECOND;
        atomic_compare_exchange_strong(&crew->turn, &mine, TURN_FIRST);
        ht_futex_wake(&crew->turn);
    }
}

static bool fight_duel(struct ht_torturer *t) {
    const struct sigaction action = {.sa_sigaction = stop_there, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    t->alone = false;
    return run_crew(t, 2, duel) == 2;
}

// Each thread ends what another has made.
static void hand_over(struct worker *worker) {
    enum { BLOCKS = 200, ROUNDS = 40 };
    static const uint64_t sizes[] = {40, 400, 1300, 5000};
    struct ht_torturer *t = &worker->t;
    struct range mine = own_range(worker, BLOCKS), others = mine;
    others.first = work.first + SHARED + (t->number % worker->crew->count + 1) * BLOCKS;
    for (unsigned i = 0; i < ROUNDS; i++) {
        for (uint32_t k = 0; k < BLOCKS; k++)
            ht_block_make(t, t->of->blocks + mine.first + k, HT_VERIFIED_MALLOC, sizes[i % 4] + k % 8, 0);
        meet(worker->crew);
        end_all(t, others);
        meet(worker->crew);
    }
}

// The last calls of a thread, after those in which the allocator gives up what it has kept for it.
static void call_last(void *argument) {
    struct worker *worker = argument;
    struct ht_torturer *t = &worker->t;
    struct ht_block *block = t->of->blocks + own_range(worker, LEFT).first;
    ht_block_end(t, block);
    ht_block_make(t, block, HT_VERIFIED_MALLOC, any_size(t, 12), 0);
    if (t->random % 2) pthread_setspecific(worker->crew->key, worker);  // once more
    ht_torture_add(t);
}

// A thread whose first call is any, that takes memory, leaves blocks to others, and ends.
static void come_and_go(struct worker *worker) {
    struct ht_torturer *t = &worker->t;
    struct range mine = own_range(worker, LEFT);
    struct ht_block *left = t->of->blocks + mine.first;
    meet(worker->crew);
    if (left->at && left->function < HT_VERIFIED_NEW && t->random % 2) ht_block_resize(t, left, 5000);
    else ht_block_end(t, left);
    contend_for(t, 1000, DEPTH_MAX, 1);
    for (uint32_t i = 0; i < 2 * LEFT; i++)
        put(t, mine, any_function(t, true), any_size(t, 12), any_alignment(t));
    pthread_setspecific(worker->crew->key, worker);
}

// One that leaves nothing.
static void come_and_end(struct worker *worker) {
    meet(worker->crew);
    contend_for(&worker->t, 1000, DEPTH_MAX, 2);
}

static bool run_thread_ends(struct ht_torturer *t) {
    struct crew *crew = t->crew;
    const uint32_t count = t->of->threads, waves = 16, warm = 8;
    uint64_t before = 0;
    if (pthread_key_create(&crew->key, call_last)) return false;
    for (uint32_t i = 0; i < waves; i++) {
        if (run_crew(t, count, come_and_go) < count) return false;
        check_all(t, (struct range){work.first + SHARED, (count + 1) * LEFT});
    }
    for (uint32_t i = 0; i < warm + waves; i++) {
        if (i == warm) before = ht_torture_resident(t->of);
        if (run_crew(t, count, come_and_end) < count) return false;
    }
    tell_growth(t, HT_VERIFIED_MALLOC, 0, before, waves * count * (uint64_t)(DEPTH_MAX * 1000));
    bool all = run_crew(t, THREADS_MAX, come_and_go) == THREADS_MAX;
    end_all(t, (struct range){work.first + SHARED, (THREADS_MAX + 1) * LEFT});
    pthread_key_delete(crew->key);
    return all;
}

static void pause_us(long us) {
    const struct timespec moment = {.tv_nsec = us * 1000};
    syscall(SYS_nanosleep, &moment, NULL);
}

// What may end the process, or needs a fresh one, is done in a child. False: there was none, or body says so.
static bool in_child(struct ht_torturer *t, bool (*body)(struct ht_torturer *t)) {
    const unsigned pause = 200, pauses_max = 200000;  // 40 s, and more where the machine is busy
    const struct ht_block none = {.function = HT_VERIFIED_MALLOC};
    int status = 0;
    pid_t child = fork();
    if (child < 0) return false;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (t->of->statm_fd >= 0) t->of->statm_fd = ht_rss_open();
        int silent = open("/dev/null", O_WRONLY);  // allocators print when they refuse
        if (silent >= 0) dup2(silent, STDERR_FILENO);
        t->calls = t->crossing = t->moved = t->in_place = 0;
        t->until_ns = part_ns;
        bool done = body(t) && !t->late;
        ht_torture_add(t);
        _exit(done ? 0 : NOT_DONE);
    }
    for (unsigned i = 0; waitpid(child, &status, WNOHANG) == 0; i++) {
        if (i == pauses_max) kill(child, SIGKILL);
        pause_us(pause);
    }
    bool refuses = t->part == HT_TORTURE_REFUSALS || t->part == HT_TORTURE_NO_MEMORY;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && refuses)
        ht_torture_departs(t, HT_DEPARTURE_ABORT, HT_VERIFIED_MALLOC);
    else if (WIFSIGNALED(status) && WTERMSIG(status) != SIGTRAP)
        ht_torture_tell(t, HT_VIOLATION_ENDED, &none, 0, (uint64_t)WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool run_duel(struct ht_torturer *t) { return CAN_STEP && in_child(t, fight_duel); }

static bool run_threads(struct ht_torturer *t) {
    const uint64_t handed_over = 40 * 200 * 1700;  // bytes, by each thread
    uint32_t count = t->of->threads;
    if (run_crew(t, count, contend) < 2) return false;
    run_crew(t, count, exchange);
    end_all(t, some(SHARED));
    run_crew(t, count, hand_over);
    uint64_t before = ht_torture_resident(t->of);
    for (unsigned i = 0; i < 2; i++) run_crew(t, count, hand_over);
    tell_growth(t, HT_VERIFIED_MALLOC, 0, before, 2 * count * handed_over);
    return true;
}

static bool first_calls(struct ht_torturer *t) {
    t->alone = false;
    return run_crew(t, t->of->threads, call_first) > 1;
}

static bool run_first_calls(struct ht_torturer *t) {
    bool done = true;
    for (unsigned i = 0; i < 12 && done; i++) done = in_child(t, first_calls);
    return done;
}

static bool run_refusals(struct ht_torturer *t) { return in_child(t, refuse); }

// In the child all blocks are as they were, and what it does to them is not the parent's.
static bool change_all(struct ht_torturer *t) {
    check_all(t, residents);
    for (unsigned i = 0; i < 4000; i++)
        put(t, residents, any_function(t, true), any_size(t, 13), any_alignment(t));
    end_all(t, residents);
    return true;
}

static bool run_fork(struct ht_torturer *t) {
    bool done = in_child(t, change_all) && in_child(t, change_all);
    check_all(t, residents);
    return done;
}

// Until there is none left, under a limit of writable memory: then NULL, and what there is stays as it is.
static bool take_all(struct ht_torturer *t) {
    static const uint64_t sizes[] = {MIB, 60000, 9000};
    const uint64_t room = 32 * MIB, most = 4096 * MIB;
    uint64_t used = ht_torture_writable();
    const struct rlimit limit = {used + room, used + room};
    if (!used || setrlimit(RLIMIT_DATA, &limit)) return false;
    for (size_t i = 0; i < 3; i++) {
        uint32_t count = 0;
        bool more = true;
        for (uint64_t bytes = 0; more && bytes < (i ? 4 * room : most) && ht_torture_goes_on(t);
             bytes += sizes[i], count += more)
            more = ht_block_make(t, t->of->blocks + work.first + count,
                                 i && count % 2 ? HT_VERIFIED_CALLOC : HT_VERIFIED_MALLOC, sizes[i], 0);
        if (i == 0 && more) return false;
        if (count && !more) ht_block_resize(t, t->of->blocks + work.first, most);
        check_all(t, some(count));
        end_all(t, some(count));
    }
    check_all(t, residents);
    return true;
}

static bool run_no_memory(struct ht_torturer *t) { return in_child(t, take_all); }

static void run_parts(struct ht_torturer *t) {
    static bool (*const parts[HT_TORTURE_PARTS])(struct ht_torturer *) = {
        [HT_TORTURE_FIRST_CALLS] = run_first_calls,
        [HT_TORTURE_SIZES] = run_sizes,
        [HT_TORTURE_ALIGNMENTS] = run_alignments,
        [HT_TORTURE_REALLOC] = run_realloc,
        [HT_TORTURE_REFUSALS] = run_refusals,
        [HT_TORTURE_REUSE] = run_reuse,
        [HT_TORTURE_DUEL] = run_duel,
        [HT_TORTURE_THREADS] = run_threads,
        [HT_TORTURE_THREAD_ENDS] = run_thread_ends,
        [HT_TORTURE_FORK] = run_fork,
        [HT_TORTURE_NO_MEMORY] = run_no_memory};
    const uint32_t of_threads = 1u << HT_TORTURE_FIRST_CALLS | 1u << HT_TORTURE_DUEL |
                                1u << HT_TORTURE_THREADS | 1u << HT_TORTURE_THREAD_ENDS;
    struct ht_torture_record *record = &t->of->findings->torture;
    for (uint32_t i = 0; i < HT_TORTURE_PARTS && !t->of->stopped; i++) {
        if (t->of->threads < 2 && of_threads >> i & 1) continue;
        record->part = t->part = i;
        for (uint32_t k = 0; i == HT_TORTURE_REUSE && k < 2 * RESIDENTS; k++)
            put(t, residents, any_function(t, true), any_size(t, k % 50 ? 11 : 17), any_alignment(t));
        t->late = false;
        t->until_ns = ht_raw_clock_ns(CLOCK_PROCESS_CPUTIME_ID) + part_ns;
        bool done = parts[i](t);
        check_all(t, residents);
        ht_torture_add(t);
        if (done && !t->late && !t->of->stopped) record->done |= 1u << i;
    }
    end_all(t, residents);
    record->part = HT_TORTURE_PARTS;
}

bool ht_torture_run(const struct ht_job *job, void *(*own)(const char *name),
                    struct ht_verify_findings *findings) {
    static struct ht_torture torture = {.blocks_count = 1 + RESIDENTS + WORK};
    static struct crew crew;
    cpu_set_t processors;
    const struct rlimit no_circle = {60, 60};  // an allocator that goes round in circles is killed (SIGXCPU)
    struct ht_torturer t = {
        .of = &torture, .crew = &crew, .alone = true, .random = (job->torture_seed + 1) * SEED_STEP};
    torture.findings = findings;
    torture.known = job->known;
    torture.threads = job->torture_threads;
    torture.most_bytes = job->torture_bytes;
    torture.statm_fd = ht_rss_open();
    torture.blocks = mmap(NULL, torture.blocks_count * sizeof *torture.blocks, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (torture.blocks == MAP_FAILED) return false;
    findings->torture.threads = 1;
    findings->torture.processors =
        sched_getaffinity(0, sizeof processors, &processors) ? 1 : (uint32_t)CPU_COUNT(&processors);
    ht_torture_find(&torture, own);
    setrlimit(RLIMIT_CPU, &no_circle);
    run_parts(&t);
    return true;
}
