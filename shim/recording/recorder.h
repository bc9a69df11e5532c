// SPDX-License-Identifier: Apache-2.0
// What the hooks ask of the recording.
#ifndef HEAPTAPE_SHIM_RECORDER_H
#define HEAPTAPE_SHIM_RECORDER_H

#include "state.h"
#include "thread_states.h"

// Decides what a call whose gate does not match means: starts the recording, opens the thread's stream,
// notices a fork, a pause or a signal handler. Returns the state to record with, its gate set to `gate`, or
// NULL if the call is not to be recorded. `caller` is the hook's return address, NULL of a call that was handed over
// (wrap_linked_in.c); `stack` its stack pointer.
// errno is preserved.
HIDDEN struct thread_state *recorder_enter_slowly(uint32_t gate, const void *caller, uintptr_t stack);

HIDDEN void recorder_before_fork(void);
// The process is about to end without destructors.
HIDDEN void recorder_before_sudden_exit(void);
HIDDEN void recorder_after_fork(void);
HIDDEN void recorder_in_forked_child(void);

// The calling thread's outermost state if it is known to the current recording and idle, else NULL.
HIDDEN struct thread_state *recorder_idle_thread(void);
// Does memory that is mapped from there belong to the program itself, and is anybody to know?
HIDDEN bool recorder_watches_maps(const void *caller);
// Before the first call of the malloc family: who the caller is will be known then.
HIDDEN bool recorder_watches_early_maps(void);

#endif
