// SPDX-License-Identifier: Apache-2.0
// What musl's malloc takes from musl, made of what another C library has. It is included before the first line of each
// of musl's files, and stands for those of musl's headers whose guards it defines.
#define MALLOC_GLUE_H
#define _PTHREAD_IMPL_H
#define _INTERNAL_RELOC_H

#include <atomic.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define hidden               __attribute__((visibility("hidden")))
#define weak_alias(old, new) extern __typeof__(old) new __attribute__((weak, alias(#old)))

// musl's own names for what is no function of the C language.
#define size_classes      __malloc_size_classes
#define ctx               __malloc_context
#define alloc_meta        __malloc_alloc_meta
#define is_allzero        __malloc_allzerop
#define __malloc_replaced 0
hidden int __malloc_allzerop(void *block);

#undef assert
#define assert(holds)         ((holds) ? (void)0 : __builtin_trap())
#define USE_MADV_FREE         0
#define DISABLE_ALIGNED_ALLOC 0
#ifdef __x86_64__
#define PAGESIZE 4096
#else
#define get_page_size() ((size_t)sysconf(_SC_PAGESIZE))
#endif
#define brk(end) ((uintptr_t)syscall(SYS_brk, (uintptr_t)(end)))

// It locks only in processes that have had several threads. A C library that does not say so counts as one that has.
extern char __libc_single_threaded __attribute__((weak));
#define MT   (!&__libc_single_threaded || !__libc_single_threaded)
#define libc ((struct heaptape_libc){1})
struct heaptape_libc {
    int need_locks;
};
hidden extern int __malloc_lock[1];
hidden void __lock(volatile int *lock);
hidden void __unlock(volatile int *lock);
#define LOCK_OBJ_DEF        int __malloc_lock[1]
#define RDLOCK_IS_EXCLUSIVE 1
#define wrlock              rdlock
#define upgradelock()       ((void)0)

static inline void rdlock(void) {
    if (MT) __lock(__malloc_lock);
}

static inline void unlock(void) { __unlock(__malloc_lock); }

static inline void __futexwait(volatile void *lock, int value, int is_private) {
    int error = errno;
    syscall(SYS_futex, lock, FUTEX_WAIT | (is_private ? FUTEX_PRIVATE_FLAG : 0), value, 0);
    errno = error;
}

static inline void __wake(volatile void *lock, int count, int is_private) {
    syscall(SYS_futex, lock, FUTEX_WAKE | (is_private ? FUTEX_PRIVATE_FLAG : 0), count);
}

static inline uint64_t get_random_secret(void) {
    uint64_t secret = 0;
    const char *given = (const char *)getauxval(AT_RANDOM);  // 16 bytes, of which others use the first
    if (given) memcpy(&secret, given + 8, sizeof secret);
    return secret;
}
