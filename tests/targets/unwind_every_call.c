// SPDX-License-Identifier: Apache-2.0
// An allocator behind the recorder that unwinds the stack of every allocation by libgcc, for tests/support/sites_truth.py:
// in UNWIND_OUT a record for each, of thread, size and a hash of its frames.
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <link.h>

#include "next_malloc.h"

enum { FRAMES_MAX = 62 };

struct record {
    uint64_t size, hash;
    uint32_t tid, frames;
};

static struct {
    struct record *record;
    _Atomic uint64_t count;
    uint64_t room;
} out;

struct walk {
    uint64_t hash;
    uint32_t frames;
    int before;  // frames of this library and of the recorder come first
};

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

static uint64_t hash_of_name(const char *path) {
    const char *slash = strrchr(path, '/');
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = slash ? slash + 1 : path; *c; c++) hash = mixed(hash, (unsigned char)*c);
    return hash;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static _Unwind_Reason_Code take_frame(struct _Unwind_Context *context, void *argument) {
    struct walk *walk = argument;
    int interrupted = 0;
    uintptr_t address = _Unwind_GetIPInfo(context, &interrupted) + (interrupted != 0);
    struct dl_find_object object;
    if (!address) return _URC_NO_REASON;
    bool known = !_dl_find_object((void *)address, &object);
    const char *name = known ? object.dlfo_link_map->l_name : "";
    if (walk->before && (!strncmp(base_name(name), "libunwind_every_call", 20) ||
                         !strncmp(base_name(name), "libmalloc_wrap", 14)))
        return _URC_NO_REASON;
    walk->before = 0;
    if (walk->frames == FRAMES_MAX) return _URC_END_OF_STACK;
    walk->frames++;
    walk->hash = mixed(mixed(walk->hash, known ? hash_of_name(name) : 0),
                       known ? address - object.dlfo_link_map->l_addr : address);
    return _URC_NO_REASON;
}

static void open_out(void) {
    const char *path = getenv("UNWIND_OUT");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
    uint64_t bytes = UINT64_C(16) << 30;
    if (fd < 0 || ftruncate(fd, (off_t)bytes)) _exit(99);
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (at == MAP_FAILED) _exit(99);
    close(fd);
    out.room = bytes / sizeof *out.record;
    __atomic_store_n(&out.record, at, __ATOMIC_RELEASE);
}

static __attribute__((noinline)) void note(size_t size) {
    int saved = errno;
    if (!out.record) open_out();
    struct walk walk = {.before = 1};
    _Unwind_Backtrace(take_frame, &walk);
    uint64_t at = out.count++;
    if (at < out.room)
        out.record[at] = (struct record){size, walk.hash, (uint32_t)syscall(SYS_gettid), walk.frames};
    errno = saved;
}

void *malloc(size_t size) {
    if (!next_known()) return NULL;
    note(size);
    return next.malloc(size);
}
void *calloc(size_t count, size_t size) {
    if (!next_known()) return NULL;
    note(size);
    return next.calloc(count, size);
}
void *realloc(void *block, size_t size) {
    if (!next_known()) return NULL;
    note(size);
    return next.realloc(block, size);
}
void free(void *block) {
    if (next_known()) next.free(block);
}
int posix_memalign(void **result, size_t alignment, size_t size) {
    if (!next_known()) return ENOMEM;
    note(size);
    return next.posix_memalign(result, alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    if (!next_known()) return NULL;
    note(size);
    return next.aligned_alloc(alignment, size);
}
