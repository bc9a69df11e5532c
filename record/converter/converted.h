// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_CONVERTED_H
#define HEAPTAPE_CONVERTED_H

#include <stdbool.h>
#include <stdint.h>

#include "heap_share.h"

// What came of one log.
struct converted {
    char *raw, *trace;
    char *executable;  // empty: unknown
    uint64_t events, file_bytes, cpu_ns;
    struct ht_heap_share share;
    uint32_t pid;
    double rank;     // process_rank
    char hooks[64];  // what the log says of the hooks of a linked-in allocator; empty: nothing
    bool shell;      // it is of one
    bool complete;   // else the log is still there
    bool empty;      // there was no call in it
    bool running;    // its process was, when the program ended
};

#endif
