// SPDX-License-Identifier: Apache-2.0
// Call sites: each allocation is recorded with a number for the stack that it comes from (MALLOC_WRAP_SITES).
//
// A hook knows its return address and where that lies. By the two (the key), and by the return addresses further up that
// distinguish one stack from another, a cache has the number. The stack is unwound only where the cache does not have it.
#ifndef HEAPTAPE_SITES_H
#define HEAPTAPE_SITES_H

#include "chunks.h"

// Before the first recording of the process. Sites stay off where there is no unwinder.
HIDDEN void sites_start(void);
// The first call of a thread.
HIDDEN void sites_new_thread(void);
// Around a fork; behind it in the parent and in the child: no walk is under way meanwhile, which would leave a lock of libgcc's
// held in the child.
HIDDEN void sites_begin_fork(void);
HIDDEN void sites_end_fork(void);
// In a forked child, before its first recording.
HIDDEN void sites_after_fork(void);
// A log begins: what numbers mean is to be written again.
HIDDEN void sites_new_log(void);
// The program may have less address space: what is only reserved for sites goes back.
HIDDEN void sites_give_up_space(void);
// Objects may have been unloaded: their addresses mean nothing any more.
HIDDEN void sites_after_unload(void);

// Before the record of an allocation, which may have a call site.
HIDDEN bool room_for_call_slowly(struct thread_state *t);

static inline bool room_for_call(struct thread_state *t) {
    return likely(t->cursor.at < t->call_full_at) || room_for_call_slowly(t);
}

#endif
