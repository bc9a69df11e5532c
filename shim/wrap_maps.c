// mmap and its kin, watched (not recorded) so that the program's own anonymous memory can be told from its heap.
// What an allocator maps inside one of its calls belongs to the heap: there the gate is busy.
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrap.h"

// Only while recording, and only between calls of the malloc family. The gate is then closed, so that a signal handler that
// maps memory meanwhile does not wait for the lock that this thread holds; stop_watching must follow.
static inline bool start_watching(struct thread_state *t) {
    if (t->gate == GATE_BUSY || !t->epoch || t->gate != atomic_load_explicit(&epoch_page->epoch, memory_order_relaxed))
        return false;
    t->gate = GATE_BUSY;
    return true;
}

static inline void stop_watching(struct thread_state *t) { t->gate = t->epoch; }

static void *map(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    struct thread_state *t = &self;
    void *at = (void *)syscall(SYS_mmap, hint, bytes, protection, flags, fd, offset);
    if (at == MAP_FAILED || !start_watching(t)) return at;
    // A reservation without access holds no pages; the program maps over it what it uses.
    if ((flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE) && protection != PROT_NONE) memory_map((uintptr_t)at, bytes);
    else if (flags & MAP_FIXED) memory_unmap((uintptr_t)at, bytes);
    stop_watching(t);
    return at;
}

EXPORT void *mmap(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(hint, bytes, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(hint, bytes, protection, flags, fd, offset);
}

EXPORT int munmap(void *at, size_t bytes) {
    struct thread_state *t = &self;
    // Forgotten before it is gone: another thread may get the same addresses at once.
    if (start_watching(t)) {
        memory_unmap((uintptr_t)at, bytes);
        stop_watching(t);
    }
    return (int)syscall(SYS_munmap, at, bytes);
}

EXPORT void *mremap(void *at, size_t old_bytes, size_t new_bytes, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    void *moved = (void *)syscall(SYS_mremap, at, old_bytes, new_bytes, flags, wanted);
    struct thread_state *t = &self;
    if (moved == MAP_FAILED || !start_watching(t)) return moved;
    if (memory_is_own((uintptr_t)at)) {
        memory_unmap((uintptr_t)at, old_bytes);
        memory_map((uintptr_t)moved, new_bytes);
    }
    stop_watching(t);
    return moved;
}
