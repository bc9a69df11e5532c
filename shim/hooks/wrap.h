// SPDX-License-Identifier: Apache-2.0
// What the hooks have in common.
#ifndef HEAPTAPE_WRAP_H
#define HEAPTAPE_WRAP_H

#include <sched.h>

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
// open and enters for the record alone; one that calls libc for itself (dlclose in wrap_process.c) closes with
// GATE_BUSY_SETUP.
#define enter_allocator_first() enter_from(GATE_BUSY_REAL, __builtin_return_address(0))
#define enter_record_first()    enter_from(GATE_BUSY_OWN, __builtin_return_address(0))

// A hook of a function that a header may declare otherwise, or not at all: ours has another name.
#define HOOK(name, result, function, parameters)                                                             \
    EXPORT result function parameters __asm__(name);                                                         \
    result function parameters

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
// Does so for what is free by another name.
HIDDEN void wrap_put_free(struct thread_state *t, const void *block);
// Records a query of a block, which changes nothing, and leaves the gate to the real call.
HIDDEN void wrap_put_query(struct thread_state *t, const void *block);

// Around a call by which the program controls its allocator: begin leaves the gate to the real call. t may be NULL.
HIDDEN struct thread_state *wrap_begin_control(struct thread_state *t, enum ht_control_number number,
                                               int64_t first, int64_t second);
HIDDEN void wrap_end_control(struct thread_state *t);

// What a call of jemalloc's mallctl does, by the name that it is given.
//
// The names by which something can be changed, those of arenas with arena 0; and how many numbers stand for one at most.
enum { WRAP_MALLCTL_NAMES = 8, WRAP_MALLCTL_WORDS = 3 };
HIDDEN const char *wrap_mallctl_name(unsigned number);
HIDDEN bool wrap_mallctl_has_arena(unsigned number);

// One that changes something, or else HT_CTL_MALLCTL with the name. value: the new one, NULL where none is passed.
HIDDEN struct ht_control_call wrap_mallctl_call(const char *text, const void *value, size_t bytes);

// The program's system call as libc's syscall() makes it: by libc's code, which where calls are dispatched may be the only one
// that is allowed any; with errno.
static inline long call_by_number(long number, long a, long b, long c, long d, long e, long f) {
    return real.syscall ? real.syscall(number, a, b, c, d, e, f)
                        : with_errno(raw_syscall(number, a, b, c, d, e, f));
}

// Does a clone with these flags run on the calling thread's storage, beside it?
static inline bool wrap_clone_shares_storage(uint64_t flags) {
    return (flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == CLONE_VM;
}

// Before dlclose, which takes the loader's lock anyway.
HIDDEN void wrap_before_unload(void);

// ---- functions that are no standard ones ----

// One call of such a function, from the allocator's function to the record of it.
struct wrap_call {
    struct thread_state *t;  // NULL: not recorded
    enum ht_function function;
    size_t count, size, alignment;
    void *old;    // of a realloc
    void *block;  // the result
    size_t old_large_bytes;
    int errno_before;
};

// SIZE_MAX where it is too large for any block.
static inline size_t wrap_product(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? SIZE_MAX : bytes;
}

// Ends a call whose `t` entered by enter_allocator_first().
HIDDEN void wrap_call_end_allocation(struct wrap_call *call);
// These stand around one whose `t` entered by enter_record_first(): begin leaves the gate to the real call.
HIDDEN void wrap_call_begin_resize(struct wrap_call *call);
HIDDEN void wrap_call_end_resize(struct wrap_call *call);

// Lets a linked-in allocator work. Its calls are told by the stack: of a handler that came between the note of our own and the
// closing of the gate, the note is not ours any more.
static inline __attribute__((always_inline)) void linked_begin_work(struct thread_state *t) {
    t->stack = frame_end();
    set_gate(t, GATE_BUSY_LINKED);
}

#endif
