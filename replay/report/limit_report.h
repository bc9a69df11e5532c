// SPDX-License-Identifier: Apache-2.0
// What replays under a limit of memory showed, and how that is printed.
#ifndef HEAPTAPE_LIMIT_REPORT_H
#define HEAPTAPE_LIMIT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "replay_plan.h"

struct ht_limit_result {
    bool known;            // a run came to an answer
    bool searched;         // the run is a step of a search for the lowest limit
    uint64_t limit_bytes;  // of the process
    bool lives;
    uint64_t died_at_ns, died_event;  // where it did not: the last reading of RSS before, in trace time
    // Of a search: the lowest limit under which it lived, and the highest under which it did not; 0: none.
    uint64_t least_bytes, dies_bytes;
};

struct ht_limit_report {
    const struct ht_plan *plan;
    const struct ht_limit_result *results;  // by allocator
    const char *by;                         // see ht_limit_by
    bool own_known;                         // the limit is of the process, not of the heap alone
};

// How a limit was enforced, in results: "control group" or "readings".
const char *ht_limit_by(bool by_group);

// A limit with the unit that fits: one may be as low as a page.
enum { HT_LIMIT_TEXT_BYTES = 32 };
const char *ht_limit_text(char text[HT_LIMIT_TEXT_BYTES], uint64_t bytes);

void ht_limit_report_print(FILE *out, const struct ht_limit_report *report);
void ht_limit_report_json(FILE *out, const struct ht_limit_report *report);
// Of one allocator; null without an answer.
json_t *ht_limit_json(const struct ht_limit_result *result, const char *by);

#endif
