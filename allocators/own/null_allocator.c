// SPDX-License-Identifier: Apache-2.0
// A malloc that costs as little as a call can: while a thread replays, every block is that thread's one
// scratch page. It is a shared library, so that it is reached by the same call path as every real allocator.
// The C library itself allocates when threads start; outside of replay it gets real memory, of which freed
// blocks are used again, so that traces with very many threads don't grow this process.
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef HEAPTAPE_NULL_BY_NAME
#define NULL_NAME(name) ht_null_##name
#else
#define NULL_NAME(name) name
#endif

enum { SCRATCH_BYTES = 4096 + 64, REAL_BYTES = 16 << 20, UNIT_BYTES = 64, CLASSES = 64 };

// Thread-local, because a page that all threads write would measure the contention for it. Interposition
// forces these globals: malloc has no argument to carry state in.
struct null_thread {
    _Alignas(64) char scratch[SCRATCH_BYTES];
    bool replaying;
};
static __thread struct null_thread self __attribute__((tls_model("initial-exec")));

// What comes before a real block. It is half a unit long, so that an address alone distinguishes a real
// block, half way between units, from scratch, which begins on one: then free need not read the thread. The
// memory was the program's, as anything, and will be again: the compiler must keep the order of stores.
struct __attribute__((may_alias)) real_block {
    uint64_t units;
    struct real_block *next;
    uint64_t zero[2];
};
static_assert(sizeof(struct real_block) == UNIT_BYTES / 2, "a block begins half way between units");
static bool is_real(const void *memory) { return (uintptr_t)memory & (UNIT_BYTES / 2); }
static struct {
    _Alignas(UNIT_BYTES) char bytes[REAL_BYTES];  // only what is used becomes resident
    size_t used;
    struct real_block *freed[CLASSES];  // by size in units, headers included
    atomic_flag lock;
} real = {.lock = ATOMIC_FLAG_INIT};

// While yes, this thread's calls are the trace's and all get the same page; otherwise they are the C
// library's own and get real zeroed memory.
void ht_null_replaying(bool yes);
void ht_null_replaying(bool yes) { self.replaying = yes; }

static void lock_real(void) {
    while (atomic_flag_test_and_set_explicit(&real.lock, memory_order_acquire)) {
    }
}
static void unlock_real(void) { atomic_flag_clear_explicit(&real.lock, memory_order_release); }

static __attribute__((noinline, cold)) void *real_malloc(size_t size) {
    if (size > REAL_BYTES) return NULL;
    size_t units = (size + sizeof(struct real_block) + UNIT_BYTES - 1) / UNIT_BYTES;
    struct real_block *block = NULL;
    lock_real();
    if (units < CLASSES && real.freed[units]) {
        block = real.freed[units];
        real.freed[units] = block->next;
    } else if (units * UNIT_BYTES <= REAL_BYTES - real.used) {
        block = (struct real_block *)(real.bytes + real.used);
        real.used += units * UNIT_BYTES;
    }
    unlock_real();
    if (!block) return NULL;
    block->units = units;
    return memset(block + 1, 0, size);
}

static __attribute__((noinline, cold)) void real_free(void *memory) {
    struct real_block *block = (struct real_block *)memory - 1;
    if (block->units >= CLASSES) return;
    lock_real();
    block->next = real.freed[block->units];
    real.freed[block->units] = block;
    unlock_real();
}

static __attribute__((noinline, cold)) void *real_realloc(void *memory, size_t size) {
    void *moved = real_malloc(size);
    if (!moved || !is_real(memory)) return moved;
    size_t had = ((struct real_block *)memory - 1)->units * UNIT_BYTES - sizeof(struct real_block);
    memcpy(moved, memory, had < size ? had : size);
    real_free(memory);
    return moved;
}

void *NULL_NAME(malloc)(size_t size) {
    if (__builtin_expect(!self.replaying, 0)) return real_malloc(size);
    return self.scratch;
}

void *NULL_NAME(calloc)(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_expect(!self.replaying, 0)) {
        return __builtin_mul_overflow(count, size, &bytes) ? NULL : real_malloc(bytes);
    }
    return self.scratch;
}

void *NULL_NAME(realloc)(void *block, size_t size) {
    if (__builtin_expect(!self.replaying, 0)) return real_realloc(block, size);
    return self.scratch;
}

void NULL_NAME(free)(void *block) {
    if (__builtin_expect(is_real(block), 0)) real_free(block);
}

int NULL_NAME(posix_memalign)(void **block, size_t alignment, size_t size) {
    (void)alignment;
    *block = __builtin_expect(!self.replaying, 0) ? real_malloc(size) : self.scratch;
    return *block ? 0 : ENOMEM;
}
