// SPDX-License-Identifier: Apache-2.0
// A trace's load by time: in equal windows the live bytes, the calls and the mix of sizes.
#ifndef HEAPTAPE_STEADY_WINDOWS_H
#define HEAPTAPE_STEADY_WINDOWS_H

#include <stddef.h>
#include <stdint.h>

#include "trace_reader.h"

enum { STEADY_WINDOWS_MAX = 16384, STEADY_SIZE_CLASSES = 64 };

struct steady_window {
    double live_bytes, live_objects;  // means over its time
    uint64_t calls, frees, foreign_frees;
    uint32_t threads_begun, threads_ended;
    uint32_t sizes[STEADY_SIZE_CLASSES];  // allocations by power of two
};

struct steady_windows {
    uint64_t window_ns, end_ns;  // the trace's last event or measurement: one is made at a program's exit
    struct steady_window *list;
    size_t count;  // whole ones, without the program's end
    size_t all;    // with it
};

// One pass over the trace. Windows are as short as can be for their number; with fewer than half of STEADY_WINDOWS_MAX the
// trace has that many milliseconds. The program's end is the last part, in which it mostly frees. Returns 0 or -1 with error.
int steady_windows_read(struct ht_trace_reader *reader, const char *path, struct steady_windows *windows,
                        struct ht_error *error);
void steady_windows_free(struct steady_windows *windows);

#endif
