// SPDX-License-Identifier: Apache-2.0
// One run of a group as figures, and as a line of results (docs/reference/results.md).
#ifndef HEAPTAPE_GROUP_RESULT_H
#define HEAPTAPE_GROUP_RESULT_H

#include "group_draw.h"
#include "group_meetings.h"
#include "runner.h"

struct ht_group_result {
    const struct ht_group_program *program;
    const struct ht_choice *choice;
    const struct ht_group_look *meeting,
        *null_meeting;                             // by meeting; of the null replayer the harness itself
    const struct ht_group_look *part, *null_part;  // by moment and part
    enum ht_drawn drawn;
    uint32_t round;
    uint64_t seed, parts_written, started_realtime_ns;
    const char *problem;  // NULL: none
};

// Anonymous memory of all processes, each page once, with what is not malloc's: at a meeting.
double ht_group_bytes(const struct ht_group_result *result, uint32_t meeting);
// The highest of all meetings; and at the recording's last moment, or at the end where it knows none.
double ht_group_peak_bytes(const struct ht_group_result *result);
double ht_group_end_bytes(const struct ht_group_result *result);
// At the recording's highest moment, which is to be held against what was recorded then. NaN: it knows none.
double ht_group_moment_bytes(const struct ht_group_result *result);
// The moment with the most memory; HT_GROUP_NO_MOMENT: none is known.
uint32_t ht_group_highest_moment(const struct ht_group_program *program);

json_t *ht_group_result_json(struct ht_runner *r, const struct ht_group_result *result);

#endif
