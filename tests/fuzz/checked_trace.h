// SPDX-License-Identifier: Apache-2.0
// Reads a trace through every door there is, and holds what comes out to what the readers promise.
#ifndef HEAPTAPE_CHECKED_TRACE_H
#define HEAPTAPE_CHECKED_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_reader.h"

struct checked_trace {
    uint64_t records, calls;
    uint64_t digest;  // of all events
    size_t threads;
    bool whole, decoded, replayable;
};

// Stops where a promise is broken; an error of the readers is none. path: a file that ht_trace_open takes.
// converted: it comes from convert, which promises more than a reader asks for.
struct checked_trace checked_trace(const char *path, bool converted);

// Adds one event to a digest. The time is in the trace's units.
uint64_t checked_trace_add(uint64_t digest, uint8_t op, uint32_t thread, uint64_t time, uint32_t slot,
                           uint64_t size, uint64_t extra);

#endif
