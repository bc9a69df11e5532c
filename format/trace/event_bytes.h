// SPDX-License-Identifier: Apache-2.0
// How large the block is that an event makes.
#ifndef HEAPTAPE_EVENT_BYTES_H
#define HEAPTAPE_EVENT_BYTES_H

#include "ops.h"
#include "trace_reader.h"

static inline uint64_t ht_event_bytes(const struct ht_events *events, uint32_t row) {
    unsigned function = ht_op_function(events->op[row]);
    bool counted = function == HT_CALLOC || function == HT_REALLOCARRAY;
    return counted ? events->size[row] * events->extra[row] : events->size[row];
}

#endif
