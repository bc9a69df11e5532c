// SPDX-License-Identifier: Apache-2.0
// An allocator that is wrong on purpose, to be preloaded: the C library's, except for the one fault that
// FAULTY_MALLOC names. For one call in FAULT_ONE_IN, so that what is right is there to be damaged.
//
//     overlap        a block begins inside the one given before
//     race           two threads that ask at the same moment are given the same block
//     misaligned     posix_memalign gives 16-byte alignment only
//     misaligned_malloc  malloc gives 8-byte alignment only
//     dirty          calloc's last byte is not 0
//     realloc_tail   realloc loses the second half of what it had to keep
//     short_usable   malloc_usable_size tells 32 bytes less than there are
//     long_usable    malloc_usable_size tells 64 bytes more than there are
//     scribble       free writes into the block that was given last
//     fails          malloc returns NULL
//     refuses        always: aligned_alloc of a size that is no multiple of the alignment returns NULL
//     keeps          free keeps the block
//     crash          free ends in a segmentation fault
//     abort          free aborts
//     hang           free never returns, asleep
//     hang_forked    the same, in a process that another one has forked since the allocator began
//     spin           free never returns, busy
//     crash_at_once  the same fault as crash, in the first call of all
//     fill_descriptors  at its start it writes into whatever descriptors it has inherited
//     cut_descriptors   at its start it cuts the files behind them
//     fill_answer       late, all that it shares with the launcher for its answer becomes 0xff
//     fill_trace        the same of the decoded trace
//     leave_writer      once it has ended, a process that it began does what fill_answer does, for a while
//     leave_sleeper     at its start it begins a process that sleeps
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

enum { FAULT_ONE_IN = 100 };

// Not what the C library asks for when it starts a thread, nor what is too small to be damaged.
enum { SIZE_MIN = 64, SIZE_MAX_FAULTY = 4096 };

static atomic_ulong calls;
static _Atomic(char *) last;  // given by malloc last, with its size
static _Atomic(size_t) last_size;
static _Atomic(char *) given_again;
static atomic_int first_pid;

static bool faulty(const char *name) {
    const char *wanted = getenv("FAULTY_MALLOC");
    return wanted && !strcmp(wanted, name);
}

static bool due(const char *name) { return faulty(name) && atomic_fetch_add(&calls, 1) % FAULT_ONE_IN == 50; }

static bool fitting(size_t size) { return size >= SIZE_MIN && size <= SIZE_MAX_FAULTY; }

static void remember(void *block, size_t size) {
    atomic_store(&last, (char *)block);
    atomic_store(&last_size, size);
}

// A block that is nobody's to free: what is given wrongly is forgotten when it comes back.
enum { ARENA_UNIT = 16 };
static char arena[64 << 20];
static uint32_t arena_bytes[sizeof arena / ARENA_UNIT];  // of the block that begins in a unit
static atomic_size_t arena_used;

static bool in_arena(const void *block) {
    return (const char *)block >= arena && (const char *)block < arena + sizeof arena;
}

static void *sized(void *block, size_t size) {
    arena_bytes[(size_t)((char *)block - arena) / ARENA_UNIT] = (uint32_t)size;
    return block;
}

static char *from_arena(size_t size) {
    size_t bytes = (size + 31) / 16 * 16, at = atomic_fetch_add(&arena_used, bytes);
    return at + bytes <= sizeof arena ? sized(arena + at, size) : NULL;
}

// What a bump allocator without a lock does, with the moment in between made longer.
static void *give_racing(size_t size) {
    size_t at = atomic_load(&arena_used);
    sched_yield();
    atomic_store(&arena_used, at + (size + 31) / 16 * 16);
    return at + size <= sizeof arena ? sized(arena + at, size) : NULL;
}

// Both blocks come from the arena, so that the C library's own heap stays whole.
static void *give_overlapping(size_t size) {
    char *first = given_again, *fresh;
    if (first) {
        atomic_store(&given_again, NULL);
        return sized(first + 16, size);
    }
    fresh = from_arena(2 * size + SIZE_MAX_FAULTY);
    atomic_store(&given_again, fresh);
    return sized(fresh, size);
}

__attribute__((constructor)) static void damage_descriptors(void) {
    enum { FIRST = 3, LAST = 40 };
    char bytes[4096];
    memset(bytes, 0xff, sizeof bytes);
    for (int fd = FIRST; fd <= LAST; fd++) {
        if (faulty("fill_descriptors") && pwrite(fd, bytes, sizeof bytes, 0) < 0) continue;
        if (faulty("cut_descriptors") && ftruncate(fd, 0)) continue;
    }
}

// Fills the writable mappings of the file whose name has this in it.
static void damage_mapped(const char *name) {
    static char maps[1 << 18];
    size_t used = 0;
    int fd = open("/proc/self/maps", O_RDONLY);
    for (ssize_t got; (got = read(fd, maps + used, sizeof maps - 1 - used)) > 0;) used += (size_t)got;
    close(fd);
    maps[used] = 0;
    for (char *line = maps, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        if (!strstr(line, name) || !strstr(line, " rw")) continue;
        char *end;
        uintptr_t from = strtoull(line, &end, 16), until = strtoull(end + 1, NULL, 16);
        memset((void *)from, 0xff, until - from);
    }
}

// In a session and process group of its own.
static void leave_writer(void) {
    enum { TIMES = 2000, PAUSE_US = 1000 };
    pid_t parent = getpid();
    if (fork()) return;
    setsid();
    while (getppid() == parent) usleep(PAUSE_US);
    for (int i = 0; i < TIMES; i++) {
        usleep(PAUSE_US);
        damage_mapped("heaptape-exchange");
    }
    _exit(0);
}

__attribute__((constructor)) static void remember_first(void) { atomic_store(&first_pid, getpid()); }

__attribute__((constructor)) static void leave_sleeper(void) {
    if (!faulty("leave_sleeper") || fork()) return;
    sleep(60);
    _exit(0);
}

void *malloc(size_t size) {
    static atomic_ulong pairs;
    static atomic_flag damaged = ATOMIC_FLAG_INIT;
    if (fitting(size) && faulty("fill_answer") && due("fill_answer") && !atomic_flag_test_and_set(&damaged))
        damage_mapped("heaptape-exchange");
    if (fitting(size) && faulty("fill_trace") && due("fill_trace") && !atomic_flag_test_and_set(&damaged))
        damage_mapped("heaptape-pool");
    if (fitting(size) && faulty("leave_writer") && due("leave_writer") && !atomic_flag_test_and_set(&damaged))
        leave_writer();
    if (faulty("crash_at_once")) raise(SIGSEGV);
    if (fitting(size) && faulty("overlap") && atomic_fetch_add(&pairs, 1) % FAULT_ONE_IN < 2) {
        return give_overlapping(size);
    }
    if (fitting(size) && faulty("race")) return give_racing(size);
    if (fitting(size) && due("fails")) {
        errno = ENOMEM;
        return NULL;
    }
    if (fitting(size) && due("misaligned_malloc")) return from_arena(size) + 8;
    if (fitting(size) && faulty("long_usable")) return from_arena(size);
    char *block = __libc_malloc(size);
    if (block && fitting(size)) remember(block, size);
    return block;
}

void *calloc(size_t count, size_t size) {
    char *block = __libc_calloc(count, size);
    if (block && count * size > 0 && due("dirty")) block[count * size - 1] = 1;
    return block;
}

static size_t usable(const void *block);

void *realloc(void *block, size_t size) {
    if (in_arena(block)) {
        char *moved = __libc_malloc(size);
        size_t left = (size_t)(arena + sizeof arena - (char *)block);
        if (moved) memcpy(moved, block, size < left ? size : left);
        return moved;
    }
    size_t had = block ? usable(block) : 0;
    if (block == atomic_load(&last)) atomic_store(&last, NULL);
    char *moved = __libc_realloc(block, size);
    if (moved && had > 64 && size > had && due("realloc_tail")) memset(moved + had / 2, 0, had - had / 2);
    return moved;
}

static void damage_last(const void *freed) {
    char *block = atomic_load(&last);
    size_t size = atomic_load(&last_size);
    if (block && block != freed && due("scribble")) block[size / 2] ^= 0x55;
}

static void sleep_for_ever(void) {
    for (;;) pause();
}

static void spin_for_ever(void) {
    for (volatile bool on = true; on;) {
    }
}

void free(void *block) {
    if (block && due("crash")) raise(SIGSEGV);
    if (block && due("abort")) abort();
    if (block && due("hang")) sleep_for_ever();
    if (block && faulty("hang_forked") && getpid() != atomic_load(&first_pid)) sleep_for_ever();
    if (block && due("spin")) spin_for_ever();
    if (block) damage_last(block);
    if (block == atomic_load(&last)) atomic_store(&last, NULL);
    if (!in_arena(block) && !(block && due("keeps"))) __libc_free(block);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    char *given = __libc_memalign(alignment, size + 16);
    if (given && alignment > 16 && faulty("misaligned")) {
        *block = from_arena(size + 2 * alignment);
        while ((uintptr_t)*block % alignment == 0) *block = (char *)*block + 16;
        sized(*block, size);
        __libc_free(given);
        return 0;
    }
    *block = given;
    return given ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size) {
    if (!faulty("refuses") || size % alignment == 0) return __libc_memalign(alignment, size);
    errno = EINVAL;
    return NULL;
}
void *memalign(size_t alignment, size_t size) { return __libc_memalign(alignment, size); }

static size_t usable(const void *block) {
    size_t (*libc_usable)(void *) = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return libc_usable((void *)block);
}

size_t malloc_usable_size(void *block) {
    if (!block) return 0;
    if (in_arena(block))
        return arena_bytes[(size_t)((char *)block - arena) / ARENA_UNIT] + (faulty("long_usable") ? 64 : 0);
    size_t there = usable(block), less = faulty("short_usable") ? 32 : 0;
    return there > less ? there - less : 0;
}
