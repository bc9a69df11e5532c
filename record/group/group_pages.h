// SPDX-License-Identifier: Apache-2.0
// The anonymous pages of a process, looked at from outside.
#ifndef HEAPTAPE_GROUP_PAGES_H
#define HEAPTAPE_GROUP_PAGES_H

#include <sys/types.h>

#include "group_snapshot.h"

enum group_look { GROUP_SEEN, GROUP_GONE, GROUP_FORBIDDEN, GROUP_NO_MEMORY };

// Sums of /proc/PID/smaps_rollup.
enum group_look group_sums_read(pid_t pid, struct ht_group_member *member);
// The mappings, and the state of each page.
enum group_look group_pages_read(pid_t pid, struct ht_group_member *member);

#endif
