// SPDX-License-Identifier: Apache-2.0
// Every size, alignment and resize: wherever an allocator's classes may end.
#include "torture.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "allocator_calls.h"
#include "memory_probes.h"
#include "torture_part.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

// Sizes, one by one up to 64 KiB, then next to whole pages and to quarters of powers of two: wherever classes may end.
static void try_sizes(struct ht_torturer *t) {
    static const int beside[] = {-33, -32, -31, -24, -17, -16, -15, -9, -8, -7, -1, 0, 1, 8, 15, 16, 17, 32};
    const uint64_t count = sizeof beside / sizeof *beside, page = 4 * KIB, largest = t->of->most_bytes / 8;
    for (uint64_t bytes = 0; bytes <= 64 * KIB && ht_torture_goes_on(t); bytes++) {
        bool near_edge = (bytes + 1) % 8 < 3;  // larger classes end at a multiple of 8
        if (bytes < 16 * KIB || near_edge) ht_slots_put(t, ht_slots_some(48), HT_VERIFIED_MALLOC, bytes, 0);
    }
    for (uint64_t i = 0; i < 10000 && ht_torture_goes_on(t); i++)
        ht_slots_put(t, ht_slots_some(48), ht_any_function(t, false), i < 3000 ? i : ht_any_size(t, 16), 0);
    for (uint64_t i = 16 * count; i < 512 * count && ht_torture_goes_on(t); i++) {
        enum ht_verified_function function = ht_any_function(t, false);
        if (function == HT_VERIFIED_CALLOC && i % 8) function = HT_VERIFIED_MALLOC;  // all of it is read
        ht_slots_put(t, ht_slots_some(12), function, i / count * page + (uint64_t)beside[i % count], 0);
    }
    ht_slots_end(t, ht_slots_some(48));
    for (uint64_t bytes = 2 * MIB; bytes < largest; bytes += (1ull << (63 - __builtin_clzll(bytes))) / 4) {
        for (uint64_t i = 0; i < count && ht_torture_goes_on(t); i += 2)
            ht_slots_put(t, ht_slots_some(3), i ? HT_VERIFIED_MALLOC : ht_any_function(t, false),
                         bytes + (uint64_t)beside[i], 0);
    }
    ht_slots_end(t, ht_slots_some(3));
}

// Many of one size at once, ended and made again: the second ones lie where the first did.
static void try_bursts(struct ht_torturer *t) {
    for (uint64_t bytes = 16; bytes <= 32 * KIB; bytes += bytes < 128 ? 16 : bytes / 4) {
        uint64_t count = 2 * MIB / bytes < 400 ? 2 * MIB / bytes : 400;
        for (uint64_t i = 0; i < 2 * count && ht_torture_goes_on(t); i++) {
            if (i == count) ht_slots_end(t, ht_slots_some((uint32_t)count));
            ht_block_make(t, t->of->blocks + ht_work.first + i % count, ht_any_function(t, false),
                          bytes - i % 7, 0);
        }
        ht_slots_end(t, ht_slots_some((uint32_t)count));
    }
}

static bool torture_sizes(struct ht_torturer *t) {
    try_sizes(t);
    try_bursts(t);
    return true;
}

static bool torture_alignments(struct ht_torturer *t) {
    static const enum ht_verified_function functions[] = {HT_VERIFIED_ALIGNED, HT_VERIFIED_ALIGNED_ALLOC,
                                                          HT_VERIFIED_MEMALIGN, HT_VERIFIED_NEW_ALIGNED};
    static const uint64_t small[] = {1, 24, 100, 1000, 5000, 70000};
    for (uint64_t alignment = 8; alignment <= 2 * MIB; alignment *= 2) {
        const uint64_t near[] = {0, alignment / 2, alignment - 1, alignment, alignment + 1, 3 * alignment};
        for (uint64_t i = 0; i < 4 * 12 && ht_torture_goes_on(t); i++) {
            uint64_t bytes = i / 4 < 6 ? near[i / 4] : small[i / 4 - 6];
            struct ht_block *block = ht_slots_put(t, ht_slots_some(24), functions[i % 4], bytes, alignment);
            ht_slots_put(t, ht_slots_some(24), ht_any_function(t, false), ht_any_size(t, 12), 0);
            if (block->at && block->function < HT_VERIFIED_NEW && i % 3 == 0)
                ht_block_resize(t, block, ht_any_size(t, 17));
        }
    }
    for (uint64_t i = 0; i < 400 && ht_torture_goes_on(t); i++)
        ht_slots_put(t, ht_slots_some(24), i % 2 ? HT_VERIFIED_VALLOC : HT_VERIFIED_PVALLOC,
                     1 + (i < 40 ? i : ht_any_size(t, 16)), 0);
    ht_slots_end(t, ht_slots_some(24));
    return true;
}

// A block that grows or shrinks step by step, with others that come to lie behind it meanwhile.
static void creep(struct ht_torturer *t, uint64_t from, uint64_t to, uint64_t step) {
    struct ht_block *block = t->of->blocks + ht_work.first;
    ht_block_end(t, block);
    if (!ht_block_make(t, block, HT_VERIFIED_MALLOC, from, 0)) return;
    for (uint64_t i = 0, bytes = from; bytes != to && ht_torture_goes_on(t); i++) {
        uint64_t left = bytes < to ? to - bytes : bytes - to, by = left < step ? left : step;
        bytes = bytes < to ? bytes + by : bytes - by;
        if (!ht_block_resize(t, block, bytes)) break;
        if (i % 8 == 0)
            ht_slots_put(t, (struct ht_slots){ht_work.first + 1, 40}, HT_VERIFIED_MALLOC, ht_any_size(t, 9),
                         0);
    }
    ht_slots_end(t, ht_slots_some(41));
}

static bool torture_realloc(struct ht_torturer *t) {
    static const uint64_t sizes[] = {1,     15,    16,     24,     33,     100,    128,     129,    1000,
                                     1024,  1025,  4000,   4096,   5000,   8192,   16385,   20000,  32768,
                                     40000, 65536, 100000, 131072, 200000, 300000, 1048576, 3000000};
    const uint64_t count = sizeof sizes / sizeof *sizes;
    t->all_pages = true;
    for (uint64_t i = 0; i < count * count && ht_torture_goes_on(t); i++) {
        enum ht_verified_function function = ht_any_function(t, true);
        if (function >= HT_VERIFIED_NEW) function = HT_VERIFIED_CALLOC;
        struct ht_block *block =
            ht_slots_put(t, ht_slots_some(12), function, sizes[i / count], ht_any_alignment(t));
        if (block->at) ht_block_resize(t, block, sizes[i % count]);
        ht_slots_put(t, (struct ht_slots){ht_work.first + 12, 40}, ht_any_function(t, false),
                     ht_any_size(t, 12), 0);
        if (block->at && i % 5 == 0) ht_block_resize(t, block, block->pattern.usable + i % 2);
    }
    ht_slots_end(t, ht_slots_some(52));
    creep(t, 1, 5000, 1);
    creep(t, 5000, 1, 3);
    creep(t, 4096, 600000, 4099);
    creep(t, 600000, 16, 2049);
    t->all_pages = false;
    struct ht_block *block = ht_slots_put(t, ht_slots_some(1), HT_VERIFIED_MALLOC, 100000, 0);
    while (block->at && block->bytes < t->of->most_bytes / 16 &&
           ht_block_resize(t, block, block->bytes * 7 / 4))
        continue;
    while (block->at && block->bytes > 100 && ht_block_resize(t, block, block->bytes * 3 / 7)) continue;
    ht_slots_end(t, ht_slots_some(1));
    return true;
}

// Memory that is freed is used again, or given back.

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
        struct ht_block *block = ht_slots_put(t, ht_slots_some((uint32_t)count), function,
                                              first_bytes ? first_bytes : bytes, alignment);
        if (first_bytes && block->at) ht_block_resize(t, block, bytes);
    }
    ht_torture_tell_growth(t, function, bytes, before, times * bytes);
    ht_slots_end(t, ht_slots_some((uint32_t)count));
}

// Does the same with so many small blocks that a few that are lost show.
static void use_small_again(struct ht_torturer *t, uint64_t bytes, uint64_t freed) {
    const unsigned times = (unsigned)(freed / bytes / HT_DEPTH_MAX);
    ht_torture_contend(t, bytes, HT_DEPTH_MAX, 8);
    uint64_t before = ht_torture_resident(t->of);
    ht_torture_contend(t, bytes, HT_DEPTH_MAX, times);
    ht_torture_tell_growth(t, HT_VERIFIED_MALLOC, bytes, before, freed);
}

// A heap of many blocks, more than 16 bits can number, of which every other block is ended first. Returns how much it takes.
static uint64_t fill_heap(struct ht_torturer *t, uint64_t *resident) {
    const uint64_t most = t->of->most_bytes / 8;
    uint64_t filled = 0;
    for (uint32_t i = 0; i < ht_work.count && ht_torture_goes_on(t); i++) {
        uint64_t bytes = i % 100 || filled > most ? 16 + i % 33 : ht_any_size(t, 17);
        ht_block_make(t, t->of->blocks + ht_work.first + i, HT_VERIFIED_MALLOC, bytes, 0);
        filled += bytes;
    }
    *resident = ht_torture_resident(t->of);
    for (uint32_t i = 0; i < ht_work.count; i += 2) ht_block_end(t, t->of->blocks + ht_work.first + i);
    ht_slots_end(t, ht_work);
    return filled;
}

static bool torture_reuse(struct ht_torturer *t) {
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

// Calls that must fail, and want of memory.

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
    struct ht_block *block = t->of->blocks + ht_work.first;
    if (count > 1 && !array) return;
    if (!ht_block_make(t, block, HT_VERIFIED_MALLOC, 100, 0)) return;
    void *given = count > 1 ? array(block->at, count, size) : HT_CALL_REALLOC(block->at, size);
    must_refuse(t, count > 1 ? HT_VERIFIED_REALLOCARRAY : HT_VERIFIED_REALLOC, count, size, given);
    if (given) ht_block_forget(t, block);
    else ht_block_end(t, block);
}

// Functions that take or mean an alignment: real allocators lack the check.
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
        ht_slots_put(t, ht_slots_some(1), HT_VERIFIED_MALLOC, wide[i], 0);
        ht_slots_end(t, ht_slots_some(1));
    }
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        t->calls++;
        if (HT_CALL_POSIX_MEMALIGN(&given, odd[i], 100) != EINVAL)
            ht_torture_departs(t, HT_DEPARTURE_ALIGNMENT, HT_VERIFIED_ALIGNED);
    }
    for (uint64_t i = 0; i < 200 && ht_torture_goes_on(t); i++)
        ht_slots_put(t, ht_slots_some(60), ht_any_function(t, true), 0, ht_any_alignment(t));
    ht_slots_end(t, ht_slots_some(60));
    HT_CALL_FREE(NULL);
    HT_CALL_FREE(HT_CALL_REALLOC(HT_CALL_MALLOC(100), 0));
    const struct ht_block none = {.function = HT_VERIFIED_MALLOC};
    if (t->of->usable_size && t->of->usable_size(NULL))
        ht_torture_tell(t, HT_VIOLATION_USABLE, &none, 0, t->of->usable_size(NULL));
    return true;
}

static bool torture_refusals(struct ht_torturer *t) { return ht_torture_in_child(t, refuse); }

// Until there is none left, under a limit of writable memory: then NULL, and what there is stays as it is.
static bool take_all(struct ht_torturer *t) {
    static const uint64_t sizes[] = {MIB, 60000, 9000};
    // What an allocator reserved before is beyond the limit, up to 1 GiB: then this is not exercised.
    const uint64_t room = 32 * MIB, most = t->of->most_bytes / 2, never = 4096 * MIB;
    uint64_t used = ht_torture_writable();
    const struct rlimit limit = {used + room, used + room};
    if (!used || setrlimit(RLIMIT_DATA, &limit)) return false;
    for (size_t i = 0; i < 3; i++) {
        uint32_t count = 0;
        bool more = true;
        for (uint64_t bytes = 0; more && bytes < (i ? 4 * room : most) && ht_torture_goes_on(t);
             bytes += sizes[i], count += more)
            more = ht_block_make(t, t->of->blocks + ht_work.first + count,
                                 i && count % 2 ? HT_VERIFIED_CALLOC : HT_VERIFIED_MALLOC, sizes[i], 0);
        if (i == 0 && more) return false;
        if (count && !more) ht_block_resize(t, t->of->blocks + ht_work.first, never);
        ht_slots_check(t, ht_slots_some(count));
        ht_slots_end(t, ht_slots_some(count));
    }
    ht_slots_check(t, ht_residents);
    return true;
}

static bool torture_no_memory(struct ht_torturer *t) { return ht_torture_in_child(t, take_all); }

static const uint64_t SEED_STEP = 0x9e3779b97f4a7c15;

// In the child all blocks are as they were, and what it does to them is not the parent's.
static bool change_all(struct ht_torturer *t) {
    ht_slots_check(t, ht_residents);
    for (unsigned i = 0; i < 4000; i++)
        ht_slots_put(t, ht_residents, ht_any_function(t, true), ht_any_size(t, 13), ht_any_alignment(t));
    ht_slots_end(t, ht_residents);
    return true;
}

static bool run_fork(struct ht_torturer *t) {
    bool done = ht_torture_in_child(t, change_all) && ht_torture_in_child(t, change_all);
    ht_slots_check(t, ht_residents);
    return done;
}

static void run_parts(struct ht_torturer *t) {
    static bool (*const parts[HT_TORTURE_PARTS])(struct ht_torturer *) = {
        [HT_TORTURE_FIRST_CALLS] = ht_torture_first_calls,
        [HT_TORTURE_SIZES] = torture_sizes,
        [HT_TORTURE_ALIGNMENTS] = torture_alignments,
        [HT_TORTURE_REALLOC] = torture_realloc,
        [HT_TORTURE_REFUSALS] = torture_refusals,
        [HT_TORTURE_REUSE] = torture_reuse,
        [HT_TORTURE_DUEL] = ht_torture_duel,
        [HT_TORTURE_THREADS] = ht_torture_threads,
        [HT_TORTURE_THREAD_ENDS] = ht_torture_thread_ends,
        [HT_TORTURE_FORK] = run_fork,
        [HT_TORTURE_NO_MEMORY] = torture_no_memory};
    const uint32_t of_threads = 1u << HT_TORTURE_FIRST_CALLS | 1u << HT_TORTURE_DUEL |
                                1u << HT_TORTURE_THREADS | 1u << HT_TORTURE_THREAD_ENDS;
    struct ht_torture_record *record = &t->of->findings->torture;
    for (uint32_t i = 0; i < HT_TORTURE_PARTS && !t->of->stopped; i++) {
        if (t->of->threads < 2 && of_threads >> i & 1) continue;
        record->part = t->part = i;
        for (uint32_t k = 0; i == HT_TORTURE_REUSE && k < 2 * HT_RESIDENTS; k++)
            ht_slots_put(t, ht_residents, ht_any_function(t, true), ht_any_size(t, k % 50 ? 11 : 17),
                         ht_any_alignment(t));
        ht_torture_start_clock(t);
        bool done = parts[i](t);
        ht_slots_check(t, ht_residents);
        ht_torture_add(t);
        if (done && !t->late && !t->of->stopped) record->done |= 1u << i;
    }
    ht_slots_end(t, ht_residents);
    record->part = HT_TORTURE_PARTS;
}

bool ht_torture_run(const struct ht_job *job, void *(*own)(const char *name),
                    struct ht_verify_findings *findings) {
    static struct ht_torture torture = {.blocks_count = 1 + HT_RESIDENTS + HT_WORK};
    cpu_set_t processors;
    const struct rlimit no_circle = {60, 60};  // an allocator that goes round in circles is killed (SIGXCPU)
    struct ht_torturer t = {.of = &torture, .alone = true, .random = (job->torture_seed + 1) * SEED_STEP};
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
