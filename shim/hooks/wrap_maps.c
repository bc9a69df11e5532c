// SPDX-License-Identifier: Apache-2.0
// mmap and its kin, watched (not recorded) so that the program's own anonymous memory can be kept apart from
// its heap. What an allocator maps inside one of its calls belongs to the heap: there the gate is busy.
#include <errno.h>
#include <stdarg.h>

#include "apart.h"
#include "memory_sample.h"
#include "own_ranges.h"
#include "settings.h"
#include "sys.h"
#include "wrap.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

// A program that has an allocator of its own may hardly ever call malloc: then memory is sampled when as much
// was mapped as would have had to be allocated.
static void sample(size_t bytes) {
    struct thread_state *t = recorder_idle_thread();
    if (!t || recorder_sealed) return;
    if (bytes > INT64_MAX / 2) bytes = INT64_MAX / 2;
    t->sample_budget_bytes -= (int64_t)bytes;
    uint64_t stamp = stamp_now();
    bool waits = t->sample_budget_bytes >= 0 || t->sample_budget_bytes <= SAMPLE_WAITS;
    if ((waits && stamp < t->sample_due_stamp) || !recorder_may_call()) return;
    uint64_t old = sys_block_signals();
    // Sampling calls nothing hooked.
    close_gate(t, GATE_BUSY_OWN, stack_pointer());
    memory_sample(t, stamp, false);
    open_gate(t);
    sys_restore_signals(old);
    recorder_has_called();
}

// A table is changed under its lock: signals wait, except those of a fault, whose handler may map memory as
// well. It finds the gate busy.
struct hold {
    uint64_t signals;
    uint32_t gate;
};

static bool hold(struct hold *held) {
    if (self.gate == GATE_SHARED || !recorder_may_call()) return false;
    held->signals = sys_block_signals();
    held->gate = self.gate;
    self.stack = stack_pointer();
    set_gate(&self, GATE_BUSY_OWN);
    return true;
}

static void let_go(const struct hold *held) {
    self.stack = UINTPTR_MAX;
    set_gate(&self, held->gate);
    sys_restore_signals(held->signals);
    recorder_has_called();
}

// early_caller: NULL once the first call of the malloc family has been made. Until then it is not known which callers are
// the allocator.
static void note(uintptr_t start, size_t bytes, bool own, const void *early_caller) {
    struct hold held;
    int saved = errno;
    settings_find_page_bytes();
    if (hold(&held)) {
        if (!own) own_unmap(start, bytes);
        else if (early_caller) own_map_early(start, bytes, early_caller);
        else own_map(start, bytes);
        let_go(&held);
    }
    errno = saved;
}

static void note_early_move(uintptr_t at, size_t old_bytes, uintptr_t moved, size_t new_bytes,
                            const void *caller) {
    struct hold held;
    int saved = errno;
    settings_find_page_bytes();
    if (hold(&held)) {
        if (own_has(at)) {
            own_unmap(at, old_bytes);
            own_map_early(moved, new_bytes, caller);
        }
        let_go(&held);
    }
    errno = saved;
}

// Behind the note: pages may be there already.
static void sample_mapped(size_t bytes) {
    int saved = errno;
    sample(bytes);
    errno = saved;
}

// What another thread counts meanwhile would lack it.
static bool begin_fill(size_t bytes) {
    struct hold held;
    int saved = errno;
    bool holds = !apart_is_alone() && hold(&held);
    if (holds) {
        own_fill_begins(bytes, &self);
        let_go(&held);
    }
    errno = saved;
    return holds;
}

static void end_fill(void) {
    struct hold held;
    int saved = errno;
    if (hold(&held)) {
        own_fill_ends(&self);
        let_go(&held);
    }
    errno = saved;
}

static void *map(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset,
                 const void *caller) {
    bool fills = (flags & (MAP_POPULATE | MAP_LOCKED)) && (flags & MAP_PRIVATE) &&
                 recorder_watches_maps(caller) && begin_fill(bytes);
    void *at = real.mmap ? real.mmap(hint, bytes, protection, flags, fd, offset)
                         : (void *)with_errno(
                               raw_syscall(SYS_mmap, (long)hint, (long)bytes, protection, flags, fd, offset));
    bool watched = at != MAP_FAILED && recorder_watches_maps(caller);
    // A reservation without access is the program's, too: mprotect will open parts of it.
    bool own = (flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE);
    bool noted = watched && (own || (flags & MAP_FIXED));
    if (noted) note((uintptr_t)at, bytes, own, NULL);
    else if (at != MAP_FAILED && (own || (flags & MAP_FIXED)) && recorder_watches_early_maps())
        note((uintptr_t)at, bytes, own, caller);
    if (fills) end_fill();
    if (noted) sample_mapped(bytes);
    return at;
}

EXPORT void *mmap(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(hint, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

// Under its symbol's name, because musl's header makes the word a macro.
EXPORT void *map_64(void *hint, size_t bytes, int protection, int flags, int fd,
                    off_t offset) __asm__("mmap64");
void *map_64(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    return map(hint, bytes, protection, flags, fd, offset, __builtin_return_address(0));
}

// What is the program's own is forgotten before the kernel takes it away: another thread may get the same addresses before
// we are back, and may count own memory while the kernel is at it. True if there was any.
static bool begin_leaving(uintptr_t start, size_t bytes) {
    struct hold held;
    int saved = errno;
    bool any = false;
    if (hold(&held)) {
        any = own_unmap_begins(start, bytes, &self);
        let_go(&held);
    }
    errno = saved;
    return any;
}

static void end_leaving(bool stays) {
    struct hold held;
    int saved = errno;
    if (!stays && apart_is_alone()) {
        own_unmap_ends_alone();
    } else if (hold(&held)) {
        own_unmap_ends(&self, stays);
        let_go(&held);
    }
    errno = saved;
}

static bool begin_unmap(uintptr_t start, size_t bytes) {
    sample_mapped(bytes);
    return begin_leaving(start, bytes);
}

EXPORT int munmap(void *at, size_t bytes) {
    bool begun = recorder_watches_maps(__builtin_return_address(0)) && begin_unmap((uintptr_t)at, bytes);
    int status = real.munmap ? real.munmap(at, bytes) : (int)with_errno(sys_munmap(at, bytes));
    if (begun) end_leaving(status != 0);
    else if (status == 0 && recorder_watches_early_maps()) note((uintptr_t)at, bytes, false, NULL);
    return status;
}

// What is not its own may have come to lie on what was.
static void end_move(uintptr_t to, size_t bytes, bool own, bool stays) {
    note(to, bytes, own, NULL);
    if (own) end_leaving(stays);
    sample_mapped(bytes);
}

EXPORT void *mremap(void *at, size_t old_bytes, size_t new_bytes, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    void *wanted = flags & (MREMAP_FIXED | MREMAP_DONTUNMAP) ? va_arg(arguments, void *) : NULL;
    va_end(arguments);
    const void *caller = __builtin_return_address(0);
    bool watched = recorder_watches_maps(caller);
    bool own = watched && begin_leaving((uintptr_t)at, old_bytes);
    void *moved = real.mremap ? real.mremap(at, old_bytes, new_bytes, flags, wanted)
                              : (void *)with_errno(raw_syscall(SYS_mremap, (long)at, (long)old_bytes,
                                                               (long)new_bytes, flags, (long)wanted, 0));
    if (moved != MAP_FAILED && watched) end_move((uintptr_t)moved, new_bytes, own, flags & MREMAP_DONTUNMAP);
    else if (own) end_leaving(true);
    else if (moved != MAP_FAILED && recorder_watches_early_maps())
        note_early_move((uintptr_t)at, old_bytes, (uintptr_t)moved, new_bytes, caller);
    return moved;
}

EXPORT int mprotect(void *at, size_t bytes, int protection) {
    int status = real.mprotect ? real.mprotect(at, bytes, protection)
                               : (int)with_errno(sys_mprotect(at, bytes, protection));
    if (status == 0 && (protection & PROT_WRITE) && recorder_watches_maps(__builtin_return_address(0)))
        sample_mapped(bytes);
    return status;
}
