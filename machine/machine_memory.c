// SPDX-License-Identifier: Apache-2.0
#include "machine_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "option_values.h"

double ht_number_in_file(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    char line[256];
    double value = NAN, found;
    size_t length = strlen(key);
    while (file && isnan(value) && fgets(line, sizeof line, file)) {
        if (!strncmp(line, key, length) && sscanf(line + length, " %lf", &found) == 1) value = found;
    }
    if (file) fclose(file);
    return value;
}

// Lines are NUMBER:CONTROLLERS:GROUP; version 2 names no controllers, and has those that version 1 has not.
bool ht_control_group_here(const char *controller, struct ht_control_group *group) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX];
    bool found = false;
    while (file && (!found || group->unified) && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        bool unified = !*++controllers;
        if (!unified && !ht_has_word(controllers, ',', controller)) continue;
        found = true;
        group->unified = unified;
        group->mount_bytes = (size_t)snprintf(group->folder, sizeof group->folder, "/sys/fs/cgroup%s%s",
                                              unified ? "" : "/", unified ? "" : controller);
        snprintf(group->folder + group->mount_bytes, sizeof group->folder - group->mount_bytes, "%s", path);
    }
    if (file) fclose(file);
    return found;
}

bool ht_control_group_up(struct ht_control_group *group) {
    char *slash = strrchr(group->folder + group->mount_bytes, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

double ht_control_group_number(const struct ht_control_group *group, const char *file, const char *key) {
    char path[sizeof group->folder + 64];
    snprintf(path, sizeof path, "%s/%s", group->folder, file);
    return ht_number_in_file(path, key);
}

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
