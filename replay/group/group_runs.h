// SPDX-License-Identifier: Apache-2.0
// Replays a group under each allocator, with several draws of what the program wrote, and keeps a line of results of each run.
#ifndef HEAPTAPE_GROUP_RUNS_H
#define HEAPTAPE_GROUP_RUNS_H

#include "group_draw.h"
#include "group_meetings.h"
#include "group_program.h"
#include "runner.h"

// Prints what came of it. Returns how many runs failed.
size_t ht_group_runs(struct ht_runner *r, const struct ht_group_program *program);

#endif
