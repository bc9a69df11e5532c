// SPDX-License-Identifier: Apache-2.0
#include "machine_memory.h"

#include <math.h>
#include <sys/resource.h>

#include "kernel_numbers.h"

// What our group and all groups above it leave.
static double left_in_groups(void) {
    struct ht_control_group group;
    double left = NAN;
    if (!ht_control_group_here("memory", &group)) return left;
    const char *limit_file = group.unified ? "memory.max" : "memory.limit_in_bytes",
               *usage_file = group.unified ? "memory.current" : "memory.usage_in_bytes";
    do {
        double here =
            ht_control_group_number(&group, limit_file, "") - ht_control_group_number(&group, usage_file, "");
        if (!isnan(here)) left = fmin(left, fmax(here, 0));
    } while (ht_control_group_up(&group));
    return left;
}

uint64_t ht_memory_available_bytes(void) {
    struct rlimit space;
    double bytes = fmin(ht_number_in_file("/proc/meminfo", "MemAvailable:") * 1024, left_in_groups());
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        bytes = fmin(bytes, (double)space.rlim_cur);
    return isnan(bytes) ? UINT64_MAX : (uint64_t)bytes;
}
