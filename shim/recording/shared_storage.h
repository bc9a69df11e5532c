// SPDX-License-Identifier: Apache-2.0
// Processes made by clone on the memory of another, without thread-local storage of their own: they and their parent run at
// once on one thread's. Each then has a state of its own, by its number, which the kernel is asked for at each call.
#ifndef HEAPTAPE_SHARED_STORAGE_H
#define HEAPTAPE_SHARED_STORAGE_H

#include "state.h"

// Of the calling task, where the thread's own gate is GATE_SHARED. NULL: it cannot be had.
HIDDEN struct thread_state *shared_storage_state(void);

#endif
