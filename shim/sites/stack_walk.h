// SPDX-License-Identifier: Apache-2.0
// The return addresses of a stack, innermost first.
//
// How far up from a return address the next one lies is read from the .eh_frame tables (frame_size.h), or where the frame is of
// no fixed size by libgcc's unwinder: it allocates nothing, and since glibc 2.35 finds the tables without a lock, but takes
// some hundred nanoseconds a frame. It mostly holds for ever, so that later walks only add: if every address on the way is
// known, up to the thread's first frame, they ended where the unwinder would. Where they do not, it is asked again. Most new
// stacks have their outer frames in common with the last one: where a walk comes to a frame of that, and all its return
// addresses from there on are still in their places, they are taken over.
#ifndef HEAPTAPE_STACK_WALK_H
#define HEAPTAPE_STACK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "attributes.h"
#include "ops.h"
#include "raw_layout.h"

struct stack_frame {
    uintptr_t address;  // the return address
    uintptr_t
        cfa;  // where the caller's frame ends: the return address lies in the 8 bytes before, except in signal frames
};

struct stack_walk {
    uint32_t frames, flags;  // enum ht_site_flag
    bool
        regular;  // the tree may have it: each address lies before its cfa, on this thread's own stack, by multiples of 8 bytes
    bool unwound;     // by libgcc: what can be learned from it has not been yet
    uint32_t number;  // of walks before
    // So many frames from shared_at on are those of the walk before from shared_from on.
    uint32_t shared, shared_at, shared_from;
    struct stack_frame frame[HT_SITE_FRAMES_MAX];
};

// False where there is no unwinder.
HIDDEN bool stack_walk_start(void);

// Does libgcc itself make a call from there? Then it may hold a lock that a walk waits for.
HIDDEN bool stack_walk_is_unwinders(uintptr_t address);

// A thread that exists no more may hold that lock: it is never asked again.
HIDDEN void stack_walk_unwinder_is_lost(void);

// The calling thread's first call.
HIDDEN void stack_walk_new_thread(void);

// The stack that the calling thread began on, as far as it is known; end 0: it is not.
struct own_stack {
    uintptr_t end, bytes;
};
#define OWN_STACK_BYTES_MAX UINT32_MAX  // a tree_path has 32 bits for a distance to the end
extern HIDDEN __thread struct own_stack own_stack __attribute__((tls_model("initial-exec")));

static inline bool stack_is_own(uintptr_t cfa) { return own_stack.end - cfa <= own_stack.bytes; }

// The stack of the hook whose frame ends at `cfa`, up to so many frames. Only one thread at a time may call it.
HIDDEN void stack_walk(struct stack_walk *walk, uintptr_t cfa, unsigned frames_max);
// Remembers how far the frames lie apart. Only one thread at a time may call it.
HIDDEN void stack_walk_learn(const struct stack_walk *walk, unsigned frames_max);
// Forgets what it knows of the addresses for which `gone` is true.
HIDDEN void stack_walk_forget(bool (*gone)(uint64_t address, uint64_t value));

#endif
