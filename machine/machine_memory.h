// SPDX-License-Identifier: Apache-2.0
// How much memory this process and its children can still have.
#ifndef HEAPTAPE_MACHINE_MEMORY_H
#define HEAPTAPE_MACHINE_MEMORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Numbers that the kernel reports in files, and the control groups that bound this process.

// The number behind a key that begins a line of the file; NaN if there is none.
double ht_number_in_file(const char *path, const char *key);

struct ht_control_group {
    bool unified;  // version 2 of their file system
    size_t mount_bytes;
    char folder[PATH_MAX + 64];
};

// The group that this process is in by that controller. False if there is none.
bool ht_control_group_here(const char *controller, struct ht_control_group *group);
// Goes to the group above, up to where the hierarchy is mounted. False if there is none.
bool ht_control_group_up(struct ht_control_group *group);
// NaN if there is none, as where a limit says "max".
double ht_control_group_number(const struct ht_control_group *group, const char *file, const char *key);

// The least of: what the machine has available, what our control groups (version 1 or 2, and all above them)
// leave of their limits, and RLIMIT_AS. UINT64_MAX if none of it is known.
uint64_t ht_memory_available_bytes(void);

// How many processes the kernel has killed for want of memory, to see whether it killed ours.
struct ht_oom_kills {
    uint64_t group;    // in our control group (version 1 or 2)
    uint64_t machine;  // in all
};

// What is unknown is 0.
struct ht_oom_kills ht_oom_kills_read(void);

// What to say of a child killed by SIGKILL in between: a clause that follows, empty if nothing is known.
const char *ht_oom_kills_clause(struct ht_oom_kills before, struct ht_oom_kills after);

#endif
