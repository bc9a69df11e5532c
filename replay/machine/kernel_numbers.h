// SPDX-License-Identifier: Apache-2.0
// Numbers that the kernel reports in files, and the control groups that bound this process.
#ifndef HEAPTAPE_KERNEL_NUMBERS_H
#define HEAPTAPE_KERNEL_NUMBERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
