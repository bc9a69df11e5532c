// SPDX-License-Identifier: Apache-2.0
// A control group with a limit of memory, for one measured child: where the limit is reached the kernel reclaims what it
// can, and then kills, as in a container. Version 1 or 2, where this process may make one.
#ifndef HEAPTAPE_MEMORY_GROUP_H
#define HEAPTAPE_MEMORY_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HT_NO_LIMIT UINT64_MAX

struct ht_memory_group {
    char folder[PATH_MAX + 128];
    bool unified;  // version 2
    int procs_fd;  // where a process joins it
    int stat_fd;   // what it holds; stays open in the child
};

// Removes groups that launchers which were killed have left: of our name and our user, empty, older than a minute, and of a
// process that no longer is.
void ht_memory_groups_sweep(void);
// False, with problem, if there can be none.
bool ht_memory_group_make(struct ht_memory_group *group, uint64_t limit_bytes, char *problem, size_t room);
// The calling process joins. False with errno.
bool ht_memory_group_join(const struct ht_memory_group *group);
// Whether the kernel killed for want of memory there.
bool ht_memory_group_killed(const struct ht_memory_group *group);
// All its processes have ended.
void ht_memory_group_remove(struct ht_memory_group *group);

#endif
