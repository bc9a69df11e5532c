// SPDX-License-Identifier: Apache-2.0
// How many processes the kernel has killed for want of memory, to see whether it killed ours.
#ifndef HEAPTAPE_OOM_KILLS_H
#define HEAPTAPE_OOM_KILLS_H

#include <stdint.h>

struct ht_oom_kills {
    uint64_t group;    // in our control group (version 1 or 2)
    uint64_t machine;  // in all
};

// What is unknown is 0.
struct ht_oom_kills ht_oom_kills_read(void);

// What to say of a child killed by SIGKILL in between: a clause that follows, empty if nothing is known.
const char *ht_oom_kills_clause(struct ht_oom_kills before, struct ht_oom_kills after);

#endif
