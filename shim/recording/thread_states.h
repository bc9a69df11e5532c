// SPDX-License-Identifier: Apache-2.0
// Which state a call is recorded with: the thread's, or a nested one for the calls of a signal handler that interrupted a hook,
// or one of a task that shares a thread's storage.
//
// Processes made by clone on the memory of another, without thread-local storage of their own, and their parent run at once on
// one thread's. Each then has a state of its own, by its number, which the kernel is asked for at each call.
#ifndef HEAPTAPE_THREAD_STATES_H
#define HEAPTAPE_THREAD_STATES_H

#include "state.h"

// The innermost state that a call may be recorded with, and in `outer` the one that it is nested in; NULL if the call is the
// allocator's own or set-up's.
HIDDEN struct thread_state *idle_state(const void *caller, uintptr_t stack, struct thread_state **outer);

// For other threads: nested states of one that has ended, linked by `nested`.
HIDDEN void spare_states_take(struct thread_state *chain);

// Before a clone of a process that will run on the calling thread's storage, at the same time.
HIDDEN void recorder_shares_storage(void);

#endif
