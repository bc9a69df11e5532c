// SPDX-License-Identifier: Apache-2.0
#include "wrap_call.h"

#include <errno.h>

void wrap_call_end_allocation(struct wrap_call *call) {
    if (unlikely(!call->t)) {
        passed(call->block);
        return;
    }
    wrap_put_allocation(call->t, call->function, call->block, call->count, call->size, call->alignment);
    leave(call->t);
}

void wrap_call_begin_resize(struct wrap_call *call) {
    if (unlikely(!call->t)) return;
    if (call->old)
        call->old_large_bytes =
            wrap_put_resize_begin(call->t, call->function, call->old, call->count, call->size);
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
        wrap_put_resize_end(call->t, call->old, call->block, wrap_product(call->count, call->size),
                            call->old_large_bytes);
    else wrap_put_allocation(call->t, call->function, call->block, call->count, call->size, call->alignment);
    if (errno == 0) errno = call->errno_before;
    leave(call->t);
}
