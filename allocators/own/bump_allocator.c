// SPDX-License-Identifier: Apache-2.0
// The plainest malloc there can be: each thread hands out the next bytes of its chunk and never takes any
// back. It is the floor in time of all that hand out real memory, and the ceiling in memory. free does
// nothing.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK_BYTES = 4 << 20, LARGE_BYTES = CHUNK_BYTES / 8, ALIGNMENT = 16 };

// Before each block.
struct head {
    _Alignas(ALIGNMENT) size_t bytes;
};

// Thread-local, so that threads never wait for each other. Interposition forces these globals: malloc has no
// argument to carry state in.
static __thread struct {
    uintptr_t next, end;
} chunk __attribute__((tls_model("initial-exec")));

static void *place(uintptr_t address, size_t bytes) {
    ((struct head *)address)[-1].bytes = bytes;
    return (void *)address;
}

static uintptr_t map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? 0 : (uintptr_t)memory;
}

static uintptr_t aligned(uintptr_t address, size_t alignment) {
    return (address + sizeof(struct head) + alignment - 1) & -alignment;
}

// A large block gets a mapping of its own; what is left of a chunk is given up, and was never touched.
static __attribute__((noinline, cold)) void *from_kernel(size_t alignment, size_t bytes) {
    size_t whole;
    if (bytes > PTRDIFF_MAX || __builtin_add_overflow(bytes, sizeof(struct head) + alignment, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    if (whole > LARGE_BYTES) {
        uintptr_t start = map(whole);
        return start ? place(aligned(start, alignment), bytes) : NULL;
    }
    uintptr_t start = map(CHUNK_BYTES);
    if (!start) return NULL;
    uintptr_t address = aligned(start, alignment);
    chunk.next = address + bytes;
    chunk.end = start + CHUNK_BYTES;
    return place(address, bytes);
}

static inline __attribute__((always_inline)) void *allocate(size_t alignment, size_t bytes) {
    uintptr_t address = aligned(chunk.next, alignment);
    if (__builtin_expect(address > chunk.end || bytes > chunk.end - address, 0)) {
        return from_kernel(alignment, bytes);
    }
    chunk.next = address + bytes;
    return place(address, bytes);
}

void *malloc(size_t bytes) { return allocate(ALIGNMENT, bytes); }

// The kernel's memory is zeros, and none is handed out twice.
void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes)) return allocate(ALIGNMENT, bytes);
    errno = ENOMEM;
    return NULL;
}

void free(void *block) { (void)block; }

size_t malloc_usable_size(void *block) { return block ? ((struct head *)block)[-1].bytes : 0; }

void *realloc(void *block, size_t bytes) {
    size_t had = malloc_usable_size(block);
    if (block && bytes <= had) return place((uintptr_t)block, bytes);
    void *moved = allocate(ALIGNMENT, bytes);
    if (moved && block) memcpy(moved, block, had);
    return moved;
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (alignment % sizeof(void *) || alignment & (alignment - 1) || !alignment) return EINVAL;
    int before = errno;
    void *made = allocate(alignment < ALIGNMENT ? ALIGNMENT : alignment, bytes);
    errno = before;
    if (!made) return ENOMEM;
    *block = made;
    return 0;
}

void *memalign(size_t alignment, size_t bytes) {
    void *block = NULL;
    if (alignment < ALIGNMENT) alignment = ALIGNMENT;
    int failed = posix_memalign(&block, alignment, bytes);
    if (failed) errno = failed;
    return block;
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
void *valloc(size_t bytes) { return memalign((size_t)sysconf(_SC_PAGESIZE), bytes); }

// Only the catalogue asks for it: this is no other library's malloc.
void ht_bump_serves(void);
void ht_bump_serves(void) {}
