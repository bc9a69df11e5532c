// SPDX-License-Identifier: Apache-2.0
// One call of a function that is no standard one, from the allocator's function to the record of it.
#ifndef HEAPTAPE_WRAP_CALL_H
#define HEAPTAPE_WRAP_CALL_H

#include "wrap.h"

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

// Of a call whose `t` entered by enter_allocator_first().
HIDDEN void wrap_call_end_allocation(struct wrap_call *call);
// Of one whose `t` entered by enter_record_first(): begin leaves the gate to the real call.
HIDDEN void wrap_call_begin_resize(struct wrap_call *call);
HIDDEN void wrap_call_end_resize(struct wrap_call *call);

#endif
