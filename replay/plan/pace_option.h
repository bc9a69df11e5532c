// SPDX-License-Identifier: Apache-2.0
// --pace: which time the allocator sees, and whether the replay waits for recorded times.
#ifndef HEAPTAPE_PACE_OPTION_H
#define HEAPTAPE_PACE_OPTION_H

#include <stdbool.h>

struct ht_pace {
    char name[32];  // as in results
    bool virtual_time;
    double real_ns_per_trace_ns;  // 0: no waiting
};

struct ht_paces {
    struct ht_pace time, memory;
};

#define HT_PACES_VIRTUAL                                                                                     \
    (struct ht_paces) { {"virtual", true, 0}, {"virtual", true, 0} }

// PACE for both passes, or time=PACE or memory=PACE or both with a comma between. False if it is none of
// these.
bool ht_paces_parse(const char *text, struct ht_paces *paces);

#endif
