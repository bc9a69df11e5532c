// mmap and its kin, watched (not recorded) so that the program's own anonymous memory can be told from its
// heap. What an allocator maps inside one of its calls belongs to the heap: there the gate is busy.
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrap.h"

// Only while recording, and only between calls of the malloc family.
static inline bool watching(void) {
    const struct thread_state *t = &self;
    return t->epoch && t->gate == t->epoch &&
           t->gate == atomic_load_explicit(&epoch_page->epoch, memory_order_relaxed);
}

// Signals wait while the table is changed: a handler that maps memory, or leaves by siglongjmp, must not find
// its lock held.
static uint64_t block_signals(void) {
    uint64_t all = ~UINT64_C(0), old = 0;
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &old, sizeof old);
    return old;
}

static void restore_signals(uint64_t old) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof old);
}

static void note_mapped(uintptr_t start, size_t bytes, bool own) {
    int saved = errno;
    uint64_t old = block_signals();
    if (own) memory_map(start, bytes);
    else memory_unmap(start, bytes);
    restore_signals(old);
    errno = saved;
}

static void *map(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    void *at = (void *)syscall(SYS_mmap, hint, bytes, protection, flags, fd, offset);
    if (at == MAP_FAILED || !watching()) return at;
    // A reservation without access holds no pages; the program maps over it what it uses.
    if ((flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) && protection != PROT_NONE)
        note_mapped((uintptr_t)at, bytes, true);
    else if (flags & MAP_FIXED) note_mapped((uintptr_t)at, bytes, false);
    return at;
}

EXPORT void *mmap(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(hint, bytes, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(hint, bytes, protection, flags, fd, offset);
}

EXPORT int munmap(void *at, size_t bytes) {
    // Forgotten before it is gone: another thread may get the same addresses at once.
    if (watching()) note_mapped((uintptr_t)at, bytes, false);
    return (int)syscall(SYS_munmap, at, bytes);
}

EXPORT void *mremap(void *at, size_t old_bytes, size_t new_bytes, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    void *moved = (void *)syscall(SYS_mremap, at, old_bytes, new_bytes, flags, wanted);
    if (moved == MAP_FAILED || !watching()) return moved;
    int saved = errno;
    uint64_t old = block_signals();
    if (memory_is_own((uintptr_t)at)) {
        memory_unmap((uintptr_t)at, old_bytes);
        memory_map((uintptr_t)moved, new_bytes);
    }
    restore_signals(old);
    errno = saved;
    return moved;
}
