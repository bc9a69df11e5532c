// SPDX-License-Identifier: Apache-2.0
// What a replay under a limit of memory showed of one allocator.
#ifndef HEAPTAPE_LIMIT_RESULT_H
#define HEAPTAPE_LIMIT_RESULT_H

#include <stdbool.h>
#include <stdint.h>

struct ht_limit_result {
    bool known;            // a run came to an answer
    bool searched;         // the run is a step of a search for the lowest limit
    uint64_t limit_bytes;  // of the process
    bool lives;
    uint64_t died_at_ns, died_event;  // where it did not: the last reading of RSS before, in trace time
    // Of a search: the lowest limit under which it lived, and the highest under which it did not; 0: none.
    uint64_t least_bytes, dies_bytes;
};

#endif
