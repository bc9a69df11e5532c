// SPDX-License-Identifier: Apache-2.0
// What wrap_cxx.c and wrap_api.c need of wrap.c.
#ifndef HEAPTAPE_WRAP_H
#define HEAPTAPE_WRAP_H

#include <sched.h>
#include <stdlib.h>

#include "chunks.h"
#include "control_calls.h"
#include "ops.h"
#include "real.h"
#include "recorder.h"
#include "sys.h"

// The state to record the call with, its gate set to `gate`, or NULL if the call is not to be recorded; then
// leave() must follow. One comparison separates a known, recording, idle thread of this very process from
// everything else. The caller separates the program's calls from the allocator's own.
static inline __attribute__((always_inline)) struct thread_state *enter_from(enum gate gate,
                                                                             const void *caller) {
    struct thread_state *t = &self;
    if (likely(t->gate == gate_of(epoch_now()))) {
        close_gate(t, gate, frame_end());
        return t;
    }
    return recorder_enter_slowly(gate, caller, frame_end());
}

// How a hook enters, to be used in the hook itself:
// - the allocator first (malloc and all that allocate): the record needs the block. What the allocator calls
//   meanwhile passes through.
// - the record first (free, realloc): after the real call another thread may have the block already.
//   Writing the record calls nothing hooked; then the hook sets GATE_BUSY_REAL and calls the allocator.
// A hook that lets others' code run (operator new and its new-handlers, in wrap_cxx.c) calls with the gate
// open and enters for the record alone; one that calls libc for itself (wrap_dlclose.c) closes with
// GATE_BUSY_SETUP.
#define enter_allocator_first() enter_from(GATE_BUSY_REAL, __builtin_return_address(0))
#define enter_record_first()    enter_from(GATE_BUSY_OWN, __builtin_return_address(0))

static inline void leave(struct thread_state *t) { open_gate(t); }

// An allocation that passes through leaves its block behind: by it the first call of an operator new shows
// whether that is built on the malloc family (new_first in wrap_cxx.c).
static inline void *passed(void *block) { return self.passed_block = block; }

// Records what an operator new returned. block NULL: the call failed. alignment 0: none given.
HIDDEN void wrap_put_new(struct thread_state *t, enum ht_function function, void *block, size_t alignment,
                         size_t size);
// Records what an operator delete or a kin of free is about to do, and leaves the gate to the real call.
HIDDEN void wrap_put_delete(struct thread_state *t, enum ht_function function, void *block, bool sized,
                            size_t size, bool aligned, size_t alignment);
// The same for what is free by another name.
HIDDEN void wrap_put_free(struct thread_state *t, const void *block);
// Records a query of a block, which changes nothing, and leaves the gate to the real call.
HIDDEN void wrap_put_query(struct thread_state *t, const void *block);
// Records what a kin of that allocation function returned: for realloc's and reallocarray's, from NULL.
// alignment 0: none given.
HIDDEN void wrap_put_allocation(struct thread_state *t, enum ht_function function, void *block, size_t count,
                                size_t size, size_t alignment);
// Around a kin of realloc or reallocarray, whose block is not NULL: begin leaves the gate to the real call,
// end must find errno as the call left it, from 0. What begin returns is for end.
HIDDEN size_t wrap_put_resize_begin(struct thread_state *t, enum ht_function function, void *block,
                                    size_t count, size_t size);
HIDDEN void wrap_put_resize_end(struct thread_state *t, void *old, void *block, size_t bytes,
                                size_t large_bytes);

// Around a call by which the program controls its allocator: begin leaves the gate to the real call. t may be NULL.
HIDDEN struct thread_state *wrap_begin_control(struct thread_state *t, enum ht_control_number number,
                                               int64_t first, int64_t second);
HIDDEN void wrap_end_control(struct thread_state *t);

// The program's system call as libc's syscall() makes it: by libc's code, which where calls are dispatched may be the only one
// that is allowed any; with errno.
static inline long call_by_number(long number, long a, long b, long c, long d, long e, long f) {
    return real.syscall ? real.syscall(number, a, b, c, d, e, f)
                        : with_errno(raw_syscall(number, a, b, c, d, e, f));
}

// Is this syscall() one that the hooks of limits handle? Then call the other.
static inline bool wrap_is_limit(long number) {
#ifdef SYS_setrlimit
    if (number == SYS_setrlimit) return true;
#endif
    return number == SYS_prlimit64 || number == SYS_mlockall;
}
HIDDEN long wrap_limit_by_number(long number, long a, long b, long c, long d);

// Does a clone with these flags run on the calling thread's storage, beside it?
static inline bool wrap_clone_shares_storage(uint64_t flags) {
    return (flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == CLONE_VM;
}

// Before what a start needs, in a forked child too, is forbidden: the first log begins while it may.
static inline void wrap_begin_while_allowed(void) {
    if (epoch_now() == EPOCH_NONE) free(malloc(1));
}
// Before dlclose, which takes the loader's lock anyway.
HIDDEN void wrap_before_unload(void);
// Before the process asks for a notice of messages in a queue.
HIDDEN void wrap_before_notification(void);
// Does this system call make a descriptor by which the process watches files? Then the log is to stay closed.
HIDDEN bool wrap_is_watch(long number);
HIDDEN void wrap_before_watch(bool is_asked);

#endif
