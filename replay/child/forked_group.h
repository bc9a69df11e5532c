// SPDX-License-Identifier: Apache-2.0
// A process of a group, which forks the others and meets them (group_plan.h).
#ifndef HEAPTAPE_FORKED_GROUP_H
#define HEAPTAPE_FORKED_GROUP_H

#include <stdint.h>

#include "replay_lane.h"

struct measured;
struct ht_group_run;

// Maps the job's plan: this process is its root. It ends with the reason in the outcome if it cannot.
struct ht_group_run *ht_group_open(struct measured *run);

// The root's calls, and all that follows the last of them. Returns when every process has ended.
void ht_group_run_root(struct ht_group_run *group);

#endif
