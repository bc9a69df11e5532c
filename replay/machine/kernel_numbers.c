// SPDX-License-Identifier: Apache-2.0
#include "kernel_numbers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
