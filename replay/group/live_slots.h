// SPDX-License-Identifier: Apache-2.0
// Which blocks are live at moments of a trace, in the order of their births: what a fork hands on is named by that.
#ifndef HEAPTAPE_LIVE_SLOTS_H
#define HEAPTAPE_LIVE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "trace_reader.h"

struct ht_live_slot {
    uint64_t birth, bytes;  // birth: the event that made the block, or gave it its present size
    uint32_t slot;
};

// Before the event of that number, and behind the last one at that time; UINT64_MAX: the other of the two decides.
struct ht_live_moment {
    uint64_t event, time_ns;
};

// Called with each moment in turn: those are in the order of the trace. Returns 0, or -1 with error.
typedef int ht_live_visitor(void *context, size_t moment, const struct ht_live_slot *live, size_t count,
                            struct ht_error *error);
int ht_live_slots(struct ht_trace_reader *reader, const struct ht_live_moment *moments, size_t count,
                  ht_live_visitor *visit, void *context, struct ht_error *error);

#endif
