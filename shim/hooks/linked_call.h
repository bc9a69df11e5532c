// SPDX-License-Identifier: Apache-2.0
// What the calls of a linked-in allocator have in common, whether they are handed over or hooked.
#ifndef HEAPTAPE_LINKED_CALL_H
#define HEAPTAPE_LINKED_CALL_H

#include "wrap_call.h"

// Lets the allocator work. Its calls are told by the stack: of a handler that came between the note of our own and the
// closing of the gate, the note is not ours any more.
static inline __attribute__((always_inline)) void linked_begin_work(struct thread_state *t) {
    t->stack = frame_end();
    set_gate(t, GATE_BUSY_LINKED);
}

#endif
