// SPDX-License-Identifier: Apache-2.0
// madvise of heap memory: huge pages that the program asks for, and memory that it gives back without freeing it. Which blocks
// it is, the converter finds by the address. What an allocator advises is its own matter.
#include <errno.h>
#include <sys/mman.h>

#include "large_blocks.h"
#include "memory_sample.h"
#include "own_ranges.h"
#include "settings.h"
#include "wrap.h"

static bool is_recorded(int advice) {
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
    case MADV_FREE: return true;
    default: return false;
    }
}

static int advise(void *at, size_t bytes, int advice) {
    return real.madvise ? real.madvise(at, bytes, advice)
                        : (int)with_errno(raw_syscall(SYS_madvise, (long)at, (long)bytes, advice, 0, 0, 0));
}

// Blocks of which the trace says how much is resident are not smaller. How much of the bytes is so before, shows what was
// written until then.
static uint32_t resident_before(struct thread_state *t, const void *at, size_t bytes) {
    return bytes < HT_LARGE_BLOCK_BYTES ? 0 : residency_count_pages(t, at, bytes);
}

// Memory that the program mapped itself, as an allocator inside one of its libraries does, is no block of malloc's.
static bool is_own(const void *at) {
    if (!recorder_may_call()) return false;
    uint64_t signals = sys_block_signals();
    bool own = own_has((uintptr_t)at);
    sys_restore_signals(signals);
    recorder_has_called();
    return own;
}

EXPORT int madvise(void *at, size_t bytes, int advice) {
    struct thread_state *t =
        is_recorded(advice) && !real_calls_from(__builtin_return_address(0)) ? recorder_idle_thread() : NULL;
    if (!t) return advise(at, bytes, advice);
    close_gate(t, GATE_BUSY_OWN, stack_pointer());
    int saved = errno;
    if (is_own(at)) {
        errno = saved;
        open_gate(t);
        return advise(at, bytes, advice);
    }
    uint64_t resident = resident_before(t, at, bytes);
    bool gives_back = advice == MADV_DONTNEED || advice == MADV_FREE;
    if (gives_back && resident) memory_sample_before_free(t, (resident - 1) * settings.page_bytes, 0);
    uint64_t word[4] = {stamp_now(), (uint64_t)(uintptr_t)at, bytes, resident << 8 | (unsigned)advice};
    errno = saved;
    int status = advise(at, bytes, advice);
    saved = errno;
    if (!status && room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_ADVISE, word, 4);
    if (!status && gives_back) large_emptied(at);
    memory_sample(t, stamp_now(), false);
    errno = saved;
    open_gate(t);
    return status;
}
