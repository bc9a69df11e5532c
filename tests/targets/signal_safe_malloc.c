// SPDX-License-Identifier: Apache-2.0
// An allocator that a signal handler may call at any instant, because it takes no lock: two lists of
// blocks that were freed, changed by one compare-and-swap, and beyond them memory by one addition.
// The program signal_malloc is linked with it, so that its handler is legal C.
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

// Blocks lie on multiples of 16 and have their size in the eight bytes before them.
enum { GRAIN = 16, SMALL_BYTES = 256, MEDIUM_BYTES = 8192, LISTS = 2 };
static const size_t aligned_bit = (size_t)1 << 63;
static const size_t arena_bytes = (size_t)4 << 30;
static char *arena;
static size_t arena_used;

// Place of the first block in the arena, in grains, and above bit 40 a count that every change
// raises: a handler that pops and pushes the same block in between is noticed.
static uint64_t lists[LISTS];
static const uint64_t place_mask = ((uint64_t)1 << 40) - 1;

// True while a call is within; see signal_malloc.c.
volatile int signal_safe_malloc_inside;
// A signal that the next malloc sends to its own thread, once; 0: none.
volatile int signal_safe_malloc_raises;

static char *arena_start(void) {
    char *start = __atomic_load_n(&arena, __ATOMIC_ACQUIRE), *nothing = NULL;
    if (start) return start;
    start =
        mmap(NULL, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    if (__atomic_compare_exchange_n(&arena, &nothing, start, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return start;
    munmap(start, arena_bytes);
    return nothing;
}

static uint64_t *list_for(size_t bytes) {
    return bytes <= SMALL_BYTES ? &lists[0] : bytes <= MEDIUM_BYTES ? &lists[1] : NULL;
}

static void push(uint64_t *list, void *block) {
    uint64_t place = (uint64_t)((char *)block - arena) / GRAIN;
    uint64_t head = __atomic_load_n(list, __ATOMIC_ACQUIRE), next;
    do {
        *(uint64_t *)block = head & place_mask;
        next = ((head & ~place_mask) + place_mask + 1) | place;
    } while (!__atomic_compare_exchange_n(list, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
}

static void *pop(uint64_t *list) {
    uint64_t head = __atomic_load_n(list, __ATOMIC_ACQUIRE), next;
    uint64_t *block;
    do {
        if (!(head & place_mask)) return NULL;
        block = (uint64_t *)(arena + (head & place_mask) * GRAIN);
        next = ((head & ~place_mask) + place_mask + 1) | (*block & place_mask);
    } while (!__atomic_compare_exchange_n(list, &head, next, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return block;
}

static void *take(size_t alignment, size_t size) {
    char *start = arena_start();
    uint64_t *list = alignment <= GRAIN ? list_for(size) : NULL;
    void *block = start && list ? pop(list) : NULL;
    if (!start || size > arena_bytes / 2) return errno = ENOMEM, NULL;
    if (!block) {
        size_t bytes = list ? list == lists ? SMALL_BYTES : MEDIUM_BYTES : (size + 15) & ~(size_t)15;
        size_t taken = GRAIN + alignment + bytes;
        size_t offset = __atomic_fetch_add(&arena_used, taken, __ATOMIC_RELAXED);
        if (offset + taken > arena_bytes) return errno = ENOMEM, NULL;
        uintptr_t after = (uintptr_t)start + offset + GRAIN + alignment - 1;
        block = (void *)(after & ~(uintptr_t)(alignment - 1));
    }
    ((size_t *)block)[-1] = size | (alignment > GRAIN ? aligned_bit : 0);
    return block;
}

void *memalign(size_t alignment, size_t size) {
    int before = signal_safe_malloc_inside;
    signal_safe_malloc_inside = 1;
    void *block = take(alignment < GRAIN ? GRAIN : alignment, size);
    signal_safe_malloc_inside = before;
    return block;
}

void *malloc(size_t size) {
    int number = signal_safe_malloc_raises;
    signal_safe_malloc_raises = 0;
    if (number) raise(number);
    return memalign(GRAIN, size);
}
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

// An aligned block has no full piece of its list's size, so its size word says that it is on none.
void free(void *block) {
    int before = signal_safe_malloc_inside;
    signal_safe_malloc_inside = 1;
    uint64_t *list = block ? list_for(((size_t *)block)[-1] & ~aligned_bit) : NULL;
    if (list && !(((size_t *)block)[-1] & aligned_bit)) push(list, block);
    signal_safe_malloc_inside = before;
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
    void *block = malloc(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *realloc(void *old, size_t size) {
    void *block = malloc(size);
    if (!old || !block) return block;
    size_t kept = ((size_t *)old)[-1] & ~aligned_bit;
    memcpy(block, old, kept < size ? kept : size);
    free(old);
    return block;
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = memalign(alignment, size);
    if (!block) return ENOMEM;
    *result = block;
    return 0;
}
