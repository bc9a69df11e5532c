// SPDX-License-Identifier: Apache-2.0
// What is printed of a group.
#ifndef HEAPTAPE_GROUP_TALK_H
#define HEAPTAPE_GROUP_TALK_H

#include <jansson.h>
#include <stdio.h>

#include "group_watch.h"

// A line for each of the first processes, and what all have together. `when` is behind "anonymous memory".
void group_write_snapshot(FILE *out, const struct ht_group_snapshot *snapshot, size_t most, const char *when);
json_t *group_snapshot_json(const struct ht_group_snapshot *snapshot);

// Says on stderr, after a run has ended, what its peak was, if it was a group.
void group_say_peak(const struct group_watch *watch, size_t most);
// Says who could not be looked at.
void group_say_hidden(const struct group_hidden *hidden);

#endif
