// SPDX-License-Identifier: Apache-2.0
// When snapshots of the heap are taken: the value of --at.
#ifndef HEAPTAPE_SNAPSHOT_TIMES_H
#define HEAPTAPE_SNAPSHOT_TIMES_H

#include <stdbool.h>
#include <stdint.h>

enum { HT_SNAPSHOT_JUMPS = 3, HT_SNAPSHOT_TIMES_MAX = 8 };

struct ht_snapshot_times {
    bool peak, end;
    bool jumps;  // the HT_SNAPSHOT_JUMPS largest rises of RSS less live bytes
    uint64_t at_ns[HT_SNAPSHOT_TIMES_MAX];
    uint32_t count;
};

// "peak,end,jumps,90s": replaces what was there. False if it is none of that, or too many.
bool ht_snapshot_times_parse(const char *text, struct ht_snapshot_times *times);

#endif
