// SPDX-License-Identifier: Apache-2.0
// Calls that must fail, and want of memory.
#include <errno.h>
#include <sys/resource.h>

#include "allocator_calls.h"
#include "torture_part.h"

#define MIB ((uint64_t)1 << 20)

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

bool ht_torture_refusals(struct ht_torturer *t) { return ht_torture_in_child(t, refuse); }

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

bool ht_torture_no_memory(struct ht_torturer *t) { return ht_torture_in_child(t, take_all); }
