// SPDX-License-Identifier: Apache-2.0
#include "oom_kills.h"

#include <math.h>

#include "kernel_numbers.h"

static uint64_t known(double count) { return isnan(count) ? 0 : (uint64_t)count; }

struct ht_oom_kills ht_oom_kills_read(void) {
    struct ht_oom_kills kills = {.machine = known(ht_number_in_file("/proc/vmstat", "oom_kill "))};
    struct ht_control_group group;
    if (!ht_control_group_here("memory", &group)) return kills;
    const char *file = group.unified ? "memory.events" : "memory.oom_control";
    double count;
    // Seen from inside a container the group's own folder may be at the mount's root.
    do count = ht_control_group_number(&group, file, "oom_kill ");
    while (isnan(count) && ht_control_group_up(&group));
    kills.group = known(count);
    return kills;
}

const char *ht_oom_kills_clause(struct ht_oom_kills before, struct ht_oom_kills after) {
    if (after.group > before.group) return ": out of memory, by its control group's limit";
    if (after.machine > before.machine) return ", probably by the kernel, which ran out of memory";
    return "";
}
