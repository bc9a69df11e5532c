// SPDX-License-Identifier: Apache-2.0
// Free memory given back along the trace, as a program does that calls malloc_trim now and then.
#ifndef HEAPTAPE_PURGING_H
#define HEAPTAPE_PURGING_H

#include <stdatomic.h>
#include <stdint.h>

#include "allocator.h"

struct ht_purging {
    const struct ht_server *server;  // whose kind can purge
    uint64_t every_ns;               // of trace time
    const _Atomic uint64_t *now_ns;
    _Atomic uint64_t next_ns;
};

// Before a sample of RSS, by whichever thread comes to it first.
void ht_purge_if_due(struct ht_purging *purging);

#endif
