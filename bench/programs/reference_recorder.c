// SPDX-License-Identifier: Apache-2.0
// The floor for a recorder that knows what was called when: a time stamp and a record of 32 bytes, appended
// to a buffer of the thread's own. The buffer is a chunk of a shared mapping of the output file, so that
// writing the data out is paid for. There is nothing else: no order repair (a realloc is one record, stamped
// after the call), no forks, no samples, no way out when the disk is full.
//
//     REFERENCE_OUT=FOLDER LD_PRELOAD=libreference_recorder.so PROGRAM      writes FOLDER/reference.PID
//
// With REFERENCE_RING set each thread writes its first chunk over and over: the same less the kernel's part.
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "next_malloc.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { CHUNK_BYTES = 1 << 20 };
static const uint64_t FILE_BYTES_MAX = UINT64_C(64) << 30, FILE_BYTES_MIN = UINT64_C(64) << 20;

enum operation { OP_FREE = 1, OP_MALLOC, OP_CALLOC, OP_REALLOC, OP_POSIX_MEMALIGN, OP_ALIGNED_ALLOC };

struct record {
    uint64_t stamp, address, size;
    uint64_t op_and_other;  // the operation; above its 8 bits realloc's old address, else count or alignment
};
_Static_assert(sizeof(struct record) == 32, "record");

static __thread struct record *at __attribute__((tls_model("initial-exec")));
static __thread struct record *end __attribute__((tls_model("initial-exec")));
static __thread bool begun __attribute__((tls_model("initial-exec")));

static struct {
    char *start;
    uint64_t bytes;
    _Atomic uint64_t used;
    atomic_flag opening;
    bool ring;
} file = {.opening = ATOMIC_FLAG_INIT};

static inline uint64_t stamp_now(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t counter;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(counter));
    return counter;
#else
#error "no cycle counter is known for this machine"
#endif
}

static void fail(const char *what) {
    dprintf(STDERR_FILENO, "reference_recorder: %s: errno %d\n", what, errno);
    _exit(99);
}

static void open_file(void) {
    char path[4096];
    const char *folder = getenv("REFERENCE_OUT");
    snprintf(path, sizeof path, "%s/reference.%d", folder ? folder : "/tmp", (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) fail(path);
    void *mapping = MAP_FAILED;
    for (file.bytes = FILE_BYTES_MAX; file.bytes >= FILE_BYTES_MIN; file.bytes /= 2) {
        if (ftruncate(fd, (off_t)file.bytes)) continue;
        mapping = mmap(NULL, file.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (mapping != MAP_FAILED) break;
    }
    if (mapping == MAP_FAILED) fail("mmap");
    close(fd);
    file.ring = getenv("REFERENCE_RING") != NULL;
    __atomic_store_n(&file.start, mapping, __ATOMIC_RELEASE);
}

static __attribute__((noinline, cold)) void next_chunk(void) {
    if (begun && file.ring) {
        at = end - CHUNK_BYTES / sizeof *at;
        return;
    }
    int saved = errno;
    if (!atomic_flag_test_and_set(&file.opening)) open_file();
    while (!__atomic_load_n(&file.start, __ATOMIC_ACQUIRE)) usleep(10);
    uint64_t offset = atomic_fetch_add(&file.used, CHUNK_BYTES);
    if (offset + CHUNK_BYTES > file.bytes) fail("the output file is full");
    if (madvise(file.start + offset, CHUNK_BYTES, MADV_POPULATE_WRITE)) fail("MADV_POPULATE_WRITE");
    at = (struct record *)(file.start + offset);
    end = at + CHUNK_BYTES / sizeof *at;
    begun = true;
    errno = saved;
}

static inline void append(enum operation op, const void *block, uint64_t size, uint64_t other) {
    if (__builtin_expect(at == end, 0)) next_chunk();
    *at++ = (struct record){stamp_now(), (uintptr_t)block, size, op | other << 8};
}

void *malloc(size_t size) {
    if (!next_known()) return NULL;
    void *block = next.malloc(size);
    append(OP_MALLOC, block, size, 0);
    return block;
}

void *calloc(size_t count, size_t size) {
    if (!next_known()) return NULL;
    void *block = next.calloc(count, size);
    append(OP_CALLOC, block, size, count);
    return block;
}

void *realloc(void *old, size_t size) {
    if (!next_known()) return NULL;
    uintptr_t old_address = (uintptr_t)old;
    void *block = next.realloc(old, size);
    append(OP_REALLOC, block, size, old_address);
    return block;
}

void free(void *block) {
    if (!next_known()) return;
    append(OP_FREE, block, 0, 0);
    next.free(block);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    if (!next_known()) return ENOMEM;
    int failed = next.posix_memalign(result, alignment, size);
    append(OP_POSIX_MEMALIGN, failed ? NULL : *result, size, alignment);
    return failed;
}

void *aligned_alloc(size_t alignment, size_t size) {
    if (!next_known()) return NULL;
    void *block = next.aligned_alloc(alignment, size);
    append(OP_ALIGNED_ALLOC, block, size, alignment);
    return block;
}
