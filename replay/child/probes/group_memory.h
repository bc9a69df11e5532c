// SPDX-License-Identifier: Apache-2.0
// What a control group holds, by the file in which the kernel lists it.
#ifndef HEAPTAPE_GROUP_MEMORY_H
#define HEAPTAPE_GROUP_MEMORY_H

#include <stdint.h>

// Anonymous and shared memory, which the kernel cannot reclaim without swap; HT_FIGURE_UNKNOWN if the file does not say.
uint64_t ht_group_held_bytes(int stat_fd);

#endif
