// SPDX-License-Identifier: Apache-2.0
// The hooks: every function of the malloc family, each around the allocator's own. This is the way of one call from the
// program's malloc() to the record in the log's file; what it calls is in the folders below (state/, sampling/, sites/,
// recording/).
//
// What a hook may call. It runs in the program's thread, perhaps in a signal handler, perhaps with the loader's lock held or on
// a stack of a few kilobytes. So nothing here allocates, prints, or takes a lock that the program may hold. The kernel is asked
// by bare system calls (platform/sys.h), the allocator by the pointers in `real` (platform/real.h), and errno stays as it was.
// Work that opens a file or needs much stack goes through run_apart() (platform/apart.h). While the program has forbidden
// itself system calls, recorder_may_call() says no, and the recording goes on in room that was prepared (state/seal.c).
//
// The gate. Each thread has one in its `self`; the process has a page with an epoch, which the kernel wipes in a forked child.
// A gate that matches the epoch is that of a known, idle thread of a process that records. A hook at work sets it to another
// value, by which the calls within it are told: GATE_BUSY_REAL while the allocator works, whose own calls pass through
// unrecorded, and GATE_BUSY_OWN while the record is written. All cases are in the table in state/state.h.
//
// The fast path:
//  1. The loader has bound the program's call to malloc() below. enter_allocator_first() (wrap.h) compares gate and epoch, and
//     closes the gate. free() and realloc() enter by enter_record_first(): their record, or its first half, comes before the
//     real call, after which another thread may have the block already.
//  2. real.malloc() returns the block.
//  3. put_allocation() counts the bytes towards the next sample of memory, and asks whether a stamp is due (stamp_is_due(),
//     state/sparse_stamps.h: a process with one thread reads the clock only where time has passed).
//  4. room_for_call() (sites/sites.h) is one comparison of the cursor with the address up to which nothing is due.
//  5. ht_append_call() (format/raw/raw_append.h) packs op, time step, address step and size, mostly into eight bytes, and stores
//     them at the cursor, in a shared mapping of the file. put_free() has room_for_free() and ht_append_bare() instead.
//  6. leave() opens the gate.
//
// Where the slow paths branch off:
//  1. The gate does not match: recorder_enter_slowly() (recording/recorder.c). idle_state() (thread_states.c) finds the state to
//     record with: the thread's own, or in a signal handler that interrupted a hook a nested one, with its own stream. join()
//     begins the recording with the process's first call: start(), then open_apart() reads the settings, makes and maps the file
//     (log_create(), state/log_file.c) and writes its header. A forked child begins in start_in_child(), a paused process in
//     resume(). open_stream() gives the thread its stream and first chunk. NULL: the call is not recorded, and the hook calls
//     the real function by pass_malloc() or its kin.
//  3. A large block, a failed call, or one that carries a count or an alignment: put_unusual(), which measures how much of the
//     block is resident (sampling/large_blocks.c) and writes modifiers before the record. A free of a block that may be large:
//     put_large_free(). A stamp: put_stamped(), after which memory_sample() (sampling/memory_sample.c) may append a sample, and
//     obeys `heaptape ctl`.
//  4. There is no room, or something else is due at this address. room_for_call_slowly() writes the number of the call site,
//     where those are recorded. room_for_free_slowly() (sampling/freed_probe.c) now and then times a load of the block. Both end
//     in chunk_next() (state/chunks.c) where the chunk is full: room_for_chunk() takes the next piece of the file by an
//     atomic addition to the header's `chunks_end`, log_make_real() has its blocks reserved on the disk, so that a full disk
//     ends the recording and not the program, and the chunk's header follows, its magic last.
//
// How a record becomes visible. The file is mapped, so a store is all: the page is the kernel's, and outlives the process however
// that ends. A chunk is zeros behind its last record, and a zero head ends it for a reader. The head is in the eight bytes that
// are stored last: until then nothing is there, and afterwards all of the record is.
//
// Forks. recorder_before_fork() notes the fork's stamp in the log; libc calls it (pthread_atfork), or wrap_process.c where libc
// would not. In the child the page reads EPOCH_NONE, so the next call of any thread goes to start_in_child(): the child has a log
// of its own. A child of vfork runs on its parent's memory and in its recording: recorder_is_borrowed() keeps it from changing
// that.
//
// Ends. thread_ends(), a destructor of thread-specific data, writes the thread's end and its number of calls. at_exit() writes
// the last sample, the process's end and what is known of loaded objects, and cuts the file; calls after it still find room.
// _exit() and its kin note only what of large blocks is resident (recorder_before_sudden_exit()). A process that is killed or
// executes another program writes nothing more: its records are there, and the new program image takes the next free name.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "freed_probe.h"
#include "large_blocks.h"
#include "memory_sample.h"
#include "settings.h"
#include "sites.h"
#include "sparse_stamps.h"
#include "wrap.h"

// What a call carries beyond op, address and size.
struct extras {
    enum ht_function function;  // 0 where the op is enough
    bool has_count, has_alignment;
    size_t count, alignment;
};

static void put_extras(struct thread_state *t, const struct extras *extras) {
    if (extras->function) ht_append_modifier(&t->cursor, HT_MODIFIER_FUNCTION, extras->function);
    if (extras->has_count) ht_append_modifier(&t->cursor, HT_MODIFIER_COUNT, extras->count);
    if (extras->has_alignment) ht_append_modifier(&t->cursor, HT_MODIFIER_ALIGNMENT, extras->alignment);
}

static const struct extras no_extras;

// Counts what was allocated towards the next sample. True: it is due.
HT_ALWAYS_INLINE bool spend_budget(struct thread_state *t, size_t bytes) {
    t->sample_budget_bytes -= (int64_t)bytes;
    return unlikely(t->sample_budget_bytes < 0) && memory_sample_is_due(t);
}

// A sample, a large block that may be measured, and a failed call need a stamp.
static uint64_t stamp_of_allocation(struct thread_state *t, const void *block, size_t bytes, bool asks) {
    bool samples = block ? spend_budget(t, bytes) : memory_sample_is_due(t);
    return !block || asks || samples || stamp_is_due() ? stamp_now() : 0;
}

HT_ALWAYS_INLINE void sample_if_due(struct thread_state *t, uint64_t stamp) {
    if (stamp && unlikely(stamp >= t->sample_due_stamp)) memory_sample(t, stamp, false);
}

// Measures a new large block, if that can be afforded. Its life begins behind that.
static uint32_t watch(struct thread_state *t, const void *block, size_t bytes, uint64_t *stamp) {
    if (!large_is_watched(bytes, *stamp)) return 0;
    uint32_t resident = residency_at_birth(t, block, bytes);
    *stamp = stamp_now();
    return resident;
}

// Is it to be asked whether the block, if it is one, is measured?
static inline bool asks_to_watch(const void *block, size_t bytes) {
    return block && bytes >= HT_LARGE_BLOCK_BYTES && watch_is_asked(bytes);
}

// An allocation that failed, may be measured, or carries extras: everything but the common case.
static __attribute__((noinline)) void put_unusual(struct thread_state *t, unsigned op, void *block,
                                                  size_t size, size_t bytes, bool asks,
                                                  const struct extras *extras) {
    uint64_t stamp = stamp_of_allocation(t, block, bytes, asks);
    int saved = errno;
    uint32_t resident = asks ? watch(t, block, bytes, &stamp) : 0;
    if (room_for_call(t)) {
        put_extras(t, extras);
        if (resident) ht_append_modifier(&t->cursor, HT_MODIFIER_RESIDENT_BEFORE, resident - 1);
        if (block) {
            ht_append_call(&t->cursor, op, stamp, (uintptr_t)block, size);
        } else {
            ht_append_modifier(&t->cursor, HT_MODIFIER_FAILED, HT_FAILED_NULL);
            ht_append_unaddressed(&t->cursor, op, stamp, size);
        }
        t->calls++;
    }
    sample_if_due(t, stamp);
    errno = saved;
}

static void put_extended(struct thread_state *t, unsigned op, void *block, size_t size, size_t bytes,
                         const struct extras *extras) {
    put_unusual(t, op, block, size, bytes, asks_to_watch(block, bytes), extras);
}

// Records one of the others with a stamp. In a process with several threads all of them take stamps.
static __attribute__((noinline)) void put_stamped(struct thread_state *t, unsigned op, void *block,
                                                  size_t size) {
    uint64_t stamp = stamp_now();
    if (room_for_call(t)) {
        ht_append_call(&t->cursor, op, stamp, (uintptr_t)block, size);
        t->calls++;
    }
    sample_if_due(t, stamp);
}

// The fast path: `size` is what is logged, `bytes` what was allocated.
HT_ALWAYS_INLINE void put_allocation(struct thread_state *t, unsigned op, void *block, size_t size,
                                     size_t bytes) {
    set_gate(t, GATE_BUSY_OWN);
    if (unlikely(!block || bytes >= HT_LARGE_BLOCK_BYTES) && (!block || watch_is_asked(bytes))) {
        put_unusual(t, op, block, size, bytes, block != NULL, &no_extras);
        return;
    }
    if (unlikely(spend_budget(t, bytes)) || stamp_is_due()) {
        put_stamped(t, op, block, size);
    } else if (room_for_call(t)) {
        ht_append_call(&t->cursor, op, 0, (uintptr_t)block, size);
        t->calls++;
    }
}

// Takes a block that is about to go out of the table of large ones, if it is there. Returns its resident
// pages plus one, 0 for a small one; and, if it is there, when its life ended: before that was measured.
static __attribute__((noinline, cold)) uint32_t forget_large(struct thread_state *t, const void *block,
                                                             size_t *bytes, uint64_t *stamp) {
    int saved = errno;
    struct large_block large = large_remove(block);
    uint32_t resident = 0;
    *bytes = large.bytes;
    *stamp = 0;
    if (large.bytes) {
        *stamp = stamp_now();
        resident = residency_at_end(t, block, &large, *stamp);
        if (large.resident && resident > large.resident)
            memory_sample_before_free(t, (uint64_t)(resident - large.resident) * settings.page_bytes, *stamp);
    }
    errno = saved;
    return resident;
}

static void append_free(struct thread_state *t, unsigned op, uint64_t stamp, const void *block, bool sized,
                        size_t size) {
    if (sized) ht_append_call(&t->cursor, op, stamp, (uintptr_t)block, size);
    else ht_append_bare(&t->cursor, op, stamp, (uintptr_t)block);
    t->calls++;
}

// One that may be large: only the table, which has a lock, knows.
static __attribute__((noinline, cold)) void put_large_free(struct thread_state *t, unsigned op,
                                                           const void *block, bool sized, size_t size,
                                                           const struct extras *extras) {
    size_t bytes;
    uint64_t stamp;
    uint32_t resident = forget_large(t, block, &bytes, &stamp);
    if (room_for_record(t)) {
        put_extras(t, extras);
        if (resident) ht_append_modifier(&t->cursor, HT_MODIFIER_RESIDENT_AFTER, resident - 1);
        append_free(t, op, stamp ? stamp : stamp_if_due(), block, sized, size);
    }
}

// Reading the clock waits for what was asked of the memory before. The allocator will read the block's
// header next: asked for now, it comes while the clock is read.
HT_ALWAYS_INLINE void fetch_header(const void *block) { __builtin_prefetch((const char *)block - 16, 1); }

static __attribute__((noinline)) void put_stamped_free(struct thread_state *t, const void *block) {
    ht_append_bare(&t->cursor, HT_RAW_FREE, stamp_now(), (uintptr_t)block);
    t->calls++;
}

// Room is made first, because a probe of the block must come before anything fetches it.
HT_ALWAYS_INLINE void put_free(struct thread_state *t, const void *block) {
    if (unlikely(large_maybe(block))) {
        put_large_free(t, HT_RAW_FREE, block, false, 0, &no_extras);
    } else if (room_for_free(t, block)) {
        fetch_header(block);
        if (stamp_is_due()) {
            put_stamped_free(t, block);
        } else {
            ht_append_bare(&t->cursor, HT_RAW_FREE, 0, (uintptr_t)block);
            t->calls++;
        }
    }
}

static __attribute__((noinline)) void put_free_null(struct thread_state *t) {
    if (room_for_record(t)) {
        ht_append_unaddressed(&t->cursor, HT_RAW_FREE_NULL, stamp_if_due(), 0);
        t->calls++;
    }
}

// A call that is not recorded: an inner one, or one made before the real functions are known.
static __attribute__((noinline)) void *pass_malloc(size_t size) {
    return passed(real.malloc ? real.malloc(size) : boot_allocate(size, 16));
}

static void *pass_aligned(size_t alignment, size_t size) {
    return passed(real.memalign ? real.memalign(alignment, size) : boot_allocate(size, alignment));
}

EXPORT void *malloc(size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t)) return pass_malloc(size);
    void *block = real.malloc(size);
    put_allocation(t, HT_RAW_MALLOC, block, size, size);
    leave(t);
    return block;
}

EXPORT void *calloc(size_t count, size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t)) {
        if (real.calloc) return real.calloc(count, size);
        size_t bytes;
        // The arena has never been used before, so it is zero.
        return __builtin_mul_overflow(count, size, &bytes) ? NULL : boot_allocate(bytes, 16);
    }
    void *block = real.calloc(count, size);
    if (likely(count == 1)) {
        put_allocation(t, HT_RAW_CALLOC, block, size, size);
    } else {
        set_gate(t, GATE_BUSY_OWN);
        put_extended(t, HT_RAW_CALLOC, block, size, block ? count * size : 0,
                     &(struct extras){.has_count = true, .count = count});
    }
    leave(t);
    return block;
}

EXPORT void free(void *block) {
    if (unlikely(boot_owns(block))) return;
    struct thread_state *t = enter_record_first();
    if (unlikely(!t)) {
        if (real.free) real.free(block);
        return;
    }
    if (unlikely(!block)) put_free_null(t);
    else put_free(t, block);
    set_gate(t, GATE_BUSY_REAL);
    real.free(block);
    leave(t);
}

static void *boot_realloc(void *block, size_t size) {
    void *moved = malloc(size);
    size_t old = boot_size(block);
    if (moved) memcpy(moved, block, old < size ? old : size);
    return moved;
}

static void put_realloc_begin(struct thread_state *t, void *block, size_t size, const struct extras *extras,
                              size_t *large_bytes) {
    uint32_t resident = 0;
    uint64_t stamp = 0;
    *large_bytes = 0;
    if (unlikely(large_maybe(block))) resident = forget_large(t, block, large_bytes, &stamp);
    if (likely(!stamp)) stamp = stamp_if_due();
    if (room_for_record(t)) {
        put_extras(t, extras);
        if (unlikely(resident)) ht_append_modifier(&t->cursor, HT_MODIFIER_RESIDENT_AFTER, resident - 1);
        ht_append_call(&t->cursor, HT_RAW_REALLOC_BEGIN, stamp, (uintptr_t)block, size);
    }
    set_gate(t, GATE_BUSY_REAL);
}

static void put_realloc_end(struct thread_state *t, void *old, void *block, size_t bytes,
                            size_t old_large_bytes) {
    bool asks = asks_to_watch(block, bytes);
    uint64_t stamp = stamp_of_allocation(t, block, bytes, asks);
    int saved = errno;
    set_gate(t, GATE_BUSY_OWN);
    uint32_t resident = unlikely(asks) ? watch(t, block, bytes, &stamp) : 0;
    bool released = !block && bytes == 0 && errno == 0;
    if (unlikely(!block && !released && old_large_bytes))
        large_add(old, (struct large_block){old_large_bytes, 0});
    if (room_for_call(t)) {
        if (unlikely(resident)) ht_append_modifier(&t->cursor, HT_MODIFIER_RESIDENT_BEFORE, resident - 1);
        if (likely(block)) {
            ht_append_bare(&t->cursor, HT_RAW_REALLOC_END, stamp, (uintptr_t)block);
        } else {
            ht_append_modifier(&t->cursor, HT_MODIFIER_FAILED,
                               released ? HT_FAILED_RELEASED : HT_FAILED_NULL);
            ht_append_unaddressed(&t->cursor, HT_RAW_REALLOC_END, stamp, 0);
        }
        t->calls++;
    }
    sample_if_due(t, stamp);
    errno = saved;
}

// realloc(p, 0) may free the block and return NULL, or fail: only errno shows which. It is 0 afterwards
// unless the call set it.
static void *call_realloc(void *block, size_t bytes, int *saved) {
    *saved = errno;
    errno = 0;
    return real.realloc(block, bytes);
}

EXPORT void *realloc(void *block, size_t size) {
    fetch_header(block);
    if (unlikely(boot_owns(block))) return boot_realloc(block, size);
    struct thread_state *t = enter_record_first();
    if (unlikely(!t)) return real.realloc ? real.realloc(block, size) : pass_malloc(size);
    void *moved;
    int saved;
    if (!block) {
        set_gate(t, GATE_BUSY_REAL);
        moved = real.realloc(NULL, size);
        put_allocation(t, HT_RAW_REALLOC_NULL, moved, size, size);
    } else {
        size_t large_bytes;
        put_realloc_begin(t, block, size, &no_extras, &large_bytes);
        moved = call_realloc(block, size, &saved);
        put_realloc_end(t, block, moved, size, large_bytes);
        if (errno == 0) errno = saved;
    }
    leave(t);
    return moved;
}

EXPORT void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    bool overflows = __builtin_mul_overflow(count, size, &bytes);
    if (unlikely(boot_owns(block))) return overflows ? NULL : boot_realloc(block, bytes);
    if (unlikely(real.passed_by)) return overflows ? (errno = ENOMEM, NULL) : realloc(block, bytes);
    struct thread_state *t = enter_record_first();
    if (!t && !real.realloc) return overflows ? NULL : boot_allocate(bytes, 16);
    struct extras extras = {HT_REALLOCARRAY, .has_count = true, .count = count};
    size_t large_bytes = 0;
    if (t && block) put_realloc_begin(t, block, size, &extras, &large_bytes);
    else if (t) set_gate(t, GATE_BUSY_REAL);
    void *moved = NULL;
    int saved = errno;
    if (overflows) errno = ENOMEM;
    else moved = call_realloc(block, bytes, &saved);
    if (t && block) {
        put_realloc_end(t, block, moved, bytes, large_bytes);
    } else if (t) {
        set_gate(t, GATE_BUSY_OWN);
        put_extended(t, HT_RAW_REALLOC_NULL, moved, size, moved ? bytes : 0, &extras);
    }
    if (errno == 0) errno = saved;
    if (t) leave(t);
    return moved;
}

static void put_aligned(struct thread_state *t, enum ht_function function, void *block, size_t alignment,
                        size_t size) {
    bool has_alignment = function != HT_VALLOC && function != HT_PVALLOC;
    set_gate(t, GATE_BUSY_OWN);
    put_extended(t, HT_RAW_ALIGNED, block, size, size,
                 &(struct extras){function, .has_alignment = has_alignment, .alignment = alignment});
}

EXPORT int posix_memalign(void **result, size_t alignment, size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t)) {
        int status = ENOMEM;
        if (real.posix_memalign) status = real.posix_memalign(result, alignment, size);
        else if ((*result = boot_allocate(size, alignment))) status = 0;
        if (!status) passed(*result);
        return status;
    }
    int failed = real.posix_memalign(result, alignment, size);
    put_aligned(t, HT_POSIX_MEMALIGN, failed ? NULL : *result, alignment, size);
    leave(t);
    return failed;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t)) {
        if (!real.aligned_alloc) return pass_aligned(alignment, size);
        return passed(real.aligned_alloc(alignment, size));
    }
    void *block = real.aligned_alloc(alignment, size);
    put_aligned(t, HT_ALIGNED_ALLOC, block, alignment, size);
    leave(t);
    return block;
}

EXPORT void *memalign(size_t alignment, size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t)) return pass_aligned(alignment, size);
    void *block = real.memalign(alignment, size);
    put_aligned(t, HT_MEMALIGN, block, alignment, size);
    leave(t);
    return block;
}

EXPORT void *valloc(size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t)) return real.valloc ? real.valloc(size) : boot_allocate(size, 4096);
    void *block = real.valloc(size);
    put_aligned(t, HT_VALLOC, block, 0, size);
    leave(t);
    return block;
}

EXPORT void *pvalloc(size_t size) {
    struct thread_state *t = enter_allocator_first();
    if (unlikely(!t))
        return real.pvalloc ? real.pvalloc(size) : boot_allocate((size + 4095) & ~(size_t)4095, 4096);
    // musl has none, and yet finds ours by dlsym.
    void *block = real.pvalloc ? real.pvalloc(size) : real.valloc((size + 4095) & ~(size_t)4095);
    put_aligned(t, HT_PVALLOC, block, 0, size);
    leave(t);
    return block;
}

// Gone from glibc since 2.26; old programs' cfree was free under another name.
EXPORT void cfree(void *block) {
    if (unlikely(boot_owns(block))) return;
    if (unlikely(real.passed_by)) {
        free(block);
        return;
    }
    struct thread_state *t = enter_record_first();
    if (t) wrap_put_delete(t, HT_CFREE, block, false, 0, false, 0);
    if (real.free) real.free(block);
    if (t) leave(t);
}

EXPORT void free_sized(void *block, size_t size) {
    if (unlikely(boot_owns(block))) return;
    if (unlikely(real.passed_by)) {
        free(block);
        return;
    }
    struct thread_state *t = enter_record_first();
    if (t) wrap_put_delete(t, HT_FREE_SIZED, block, true, size, false, 0);
    if (real.free_sized) real.free_sized(block, size);
    else if (real.free) real.free(block);
    if (t) leave(t);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size) {
    if (unlikely(boot_owns(block))) return;
    if (unlikely(real.passed_by)) {
        free(block);
        return;
    }
    struct thread_state *t = enter_record_first();
    if (t) wrap_put_delete(t, HT_FREE_ALIGNED_SIZED, block, true, size, true, alignment);
    if (real.free_aligned_sized) real.free_aligned_sized(block, alignment, size);
    else if (real.free) real.free(block);
    if (t) leave(t);
}

void wrap_put_query(struct thread_state *t, const void *block) {
    if (block && room_for_record(t)) {
        if (!ht_append_same_query(&t->cursor, (uintptr_t)block))
            ht_append_bare(&t->cursor, HT_RAW_QUERY, stamp_now(), (uintptr_t)block);
        t->calls++;
    }
    set_gate(t, GATE_BUSY_REAL);
}

EXPORT size_t malloc_usable_size(void *block) {
    if (unlikely(boot_owns(block))) return boot_size(block);
    struct thread_state *t = enter_record_first();
    if (t) wrap_put_query(t, block);
    size_t bytes = real.malloc_usable_size ? real.malloc_usable_size(block) : 0;
    if (t) leave(t);
    return bytes;
}

void wrap_put_new(struct thread_state *t, enum ht_function function, void *block, size_t alignment,
                  size_t size) {
    if (likely(function == HT_NEW)) {
        put_allocation(t, HT_RAW_NEW, block, size, size);
        return;
    }
    set_gate(t, GATE_BUSY_OWN);
    put_extended(t, alignment ? HT_RAW_ALIGNED : HT_RAW_MALLOC, block, size, size,
                 &(struct extras){function, .has_alignment = alignment != 0, .alignment = alignment});
}

// The plain forms have records of their own, which need no modifier.
static unsigned op_of_delete(enum ht_function function) {
    if (function == HT_DELETE) return HT_RAW_DELETE;
    return function == HT_DELETE_SIZED ? HT_RAW_DELETE_SIZED : HT_RAW_FREE;
}

void wrap_put_delete(struct thread_state *t, enum ht_function function, void *block, bool sized, size_t size,
                     bool aligned, size_t alignment) {
    struct extras extras = {function, .has_alignment = aligned, .alignment = alignment};
    unsigned op = op_of_delete(function);
    if (unlikely(!block)) {
        if (room_for_record(t)) {
            put_extras(t, &extras);
            ht_append_unaddressed(&t->cursor, HT_RAW_FREE_NULL, stamp_if_due(), size);
            t->calls++;
        }
    } else if (unlikely(large_maybe(block))) {
        put_large_free(t, op, block, sized, size, op == HT_RAW_FREE ? &extras : &no_extras);
    } else if (room_for_free(t, block)) {
        fetch_header(block);
        if (unlikely(op == HT_RAW_FREE)) put_extras(t, &extras);
        append_free(t, op, stamp_if_due(), block, sized, size);
    }
    set_gate(t, GATE_BUSY_REAL);
}

void wrap_put_free(struct thread_state *t, const void *block) {
    if (unlikely(!block)) put_free_null(t);
    else put_free(t, block);
    set_gate(t, GATE_BUSY_REAL);
}

// Records what a kin of that allocation function returned: for realloc's and reallocarray's, from NULL.
// alignment 0: none given.
static void put_kin(struct thread_state *t, enum ht_function function, void *block, size_t count, size_t size,
                    size_t alignment) {
    bool counted = function == HT_REALLOCARRAY || (function == HT_CALLOC && count != 1);
    if (function == HT_MALLOC) {
        put_allocation(t, HT_RAW_MALLOC, block, size, size);
    } else if (function == HT_REALLOC) {
        put_allocation(t, HT_RAW_REALLOC_NULL, block, size, size);
    } else if (counted) {
        set_gate(t, GATE_BUSY_OWN);
        put_extended(
            t, function == HT_CALLOC ? HT_RAW_CALLOC : HT_RAW_REALLOC_NULL, block, size,
            block ? count * size : 0,
            &(struct extras){function == HT_CALLOC ? 0 : function, .has_count = true, .count = count});
    } else if (function == HT_CALLOC) {
        put_allocation(t, HT_RAW_CALLOC, block, size, size);
    } else if (function >= HT_NEW) {
        wrap_put_new(t, function, block, alignment, size);
    } else {
        put_aligned(t, function, block, alignment, size);
    }
}

void wrap_call_end_allocation(struct wrap_call *call) {
    if (unlikely(!call->t)) {
        passed(call->block);
        return;
    }
    put_kin(call->t, call->function, call->block, call->count, call->size, call->alignment);
    leave(call->t);
}

void wrap_call_begin_resize(struct wrap_call *call) {
    if (unlikely(!call->t)) return;
    bool counted = call->function == HT_REALLOCARRAY;
    struct extras extras = {counted ? call->function : 0, .has_count = counted, .count = call->count};
    if (call->old) put_realloc_begin(call->t, call->old, call->size, &extras, &call->old_large_bytes);
    set_gate(call->t, GATE_BUSY_REAL);
    call->errno_before = errno;
    errno = 0;
}

void wrap_call_end_resize(struct wrap_call *call) {
    if (unlikely(!call->t)) {
        passed(call->block);
        return;
    }
    if (call->old)
        put_realloc_end(call->t, call->old, call->block, wrap_product(call->count, call->size),
                        call->old_large_bytes);
    else put_kin(call->t, call->function, call->block, call->count, call->size, call->alignment);
    if (errno == 0) errno = call->errno_before;
    leave(call->t);
}
