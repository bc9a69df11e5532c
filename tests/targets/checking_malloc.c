// SPDX-License-Identifier: Apache-2.0
// An allocator that trusts nobody: no address is handed out twice, a block that is freed or reallocated must
// be one that lives, and threads that call it lose their core at random moments, so that code which relies on a
// lucky order is found out. What is wrong ends the process by SIGABRT, with one line on stderr. If
// $CHECKING_COUNTS names a file, the calls of all processes are counted there: as many 64-bit numbers as
// there are functions below.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LIVES = 0x4c495645, FREED = 0x44454144, UNIT_BYTES = 16 };
#define ARENA_BYTES (64ull << 30)  // only what is used becomes real

struct header {
    _Atomic uint32_t state;
    uint32_t zero;
    size_t bytes;
};
_Static_assert(sizeof(struct header) == UNIT_BYTES, "blocks stay aligned");

enum function { MALLOC, CALLOC, REALLOC, FREE, POSIX_MEMALIGN, FUNCTIONS };
static _Atomic uint64_t unseen_counts[FUNCTIONS];
static _Atomic uint64_t *_Atomic counts;

static _Atomic(char *) arena;
static _Atomic size_t used;

static _Noreturn void complain(const char *what) {
    static const char who[] = "checking_malloc: ";
    if (write(2, who, sizeof who - 1) < 0 || write(2, what, strlen(what)) < 0) abort();
    abort();
}

static char *get_arena(void) {
    char *start = atomic_load(&arena), *none = NULL;
    if (start) return start;
    start =
        mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) complain("no memory\n");
    if (atomic_compare_exchange_strong(&arena, &none, start)) return start;
    munmap(start, ARENA_BYTES);
    return none;
}

static _Atomic uint64_t *get_counts(void) {
    _Atomic uint64_t *found = atomic_load(&counts);
    if (found) return found;
    const char *path = getenv("CHECKING_COUNTS");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *map =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof unseen_counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    found = map == MAP_FAILED ? unseen_counts : map;
    atomic_store(&counts, found);
    return found;
}

static void seen(enum function function) { atomic_fetch_add(&get_counts()[function], 1); }

// Now and then another thread goes first, and more seldom all others do.
static void stumble(void) {
    static __thread uint32_t random __attribute__((tls_model("initial-exec")));
    if (!random) random = (uint32_t)gettid() * 2654435761u | 1;
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    if (random % 32 == 0) sched_yield();
    if (random % 4096 == 0) nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

static struct header *header_of(void *block) { return (struct header *)block - 1; }

static void *get(size_t alignment, size_t bytes) {
    if (alignment < UNIT_BYTES) alignment = UNIT_BYTES;
    if (bytes > ARENA_BYTES / 4 || alignment > ARENA_BYTES / 4) return NULL;
    size_t whole = (sizeof(struct header) + bytes + alignment + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    size_t at = atomic_fetch_add(&used, whole);
    if (at + whole > ARENA_BYTES) return NULL;
    uintptr_t block = (uintptr_t)get_arena() + at + sizeof(struct header);
    block = (block + alignment - 1) / alignment * alignment;
    struct header *header = header_of((void *)block);
    header->bytes = bytes;
    atomic_store(&header->state, LIVES);
    return (void *)block;
}

static void put(void *block, const char *wrong) {
    char *start = get_arena();
    if ((char *)block < start || (char *)block >= start + ARENA_BYTES) complain("a pointer from elsewhere\n");
    if (atomic_exchange(&header_of(block)->state, FREED) != LIVES) complain(wrong);
}

void *malloc(size_t bytes) {
    seen(MALLOC);
    stumble();
    return get(UNIT_BYTES, bytes);
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    seen(CALLOC);
    stumble();
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : get(UNIT_BYTES, bytes);
}

void free(void *block) {
    seen(FREE);
    stumble();
    if (block) put(block, "free of a block that does not live\n");
}

void *realloc(void *block, size_t bytes) {
    seen(REALLOC);
    stumble();
    void *moved = get(UNIT_BYTES, bytes);
    if (!block || !moved) return moved;
    put(block, "realloc of a block that does not live\n");
    size_t had = header_of(block)->bytes;
    return memcpy(moved, block, had < bytes ? had : bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    seen(POSIX_MEMALIGN);
    stumble();
    if (alignment % sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
    *block = get(alignment, bytes);
    return *block ? 0 : ENOMEM;
}
