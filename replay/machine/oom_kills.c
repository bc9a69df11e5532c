#include "oom_kills.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// The number behind "oom_kill " in a file of such lines. False if there is none.
static bool count_in(const char *path, uint64_t *count) {
    char line[128];
    bool found = false;
    FILE *in = fopen(path, "re");
    if (!in) return false;
    while (!found && fgets(line, sizeof line, in)) found = sscanf(line, "oom_kill %" SCNu64, count) == 1;
    fclose(in);
    return found;
}

// Seen from inside a container the group's own folder may be at the mount's root.
static uint64_t count_of_group(const char *mount, char *group, const char *file) {
    char path[PATH_MAX + 64];
    uint64_t count;
    for (;;) {
        snprintf(path, sizeof path, "%s%s/%s", mount, group, file);
        if (count_in(path, &count)) return count;
        char *slash = strrchr(group, '/');
        if (!slash) return 0;
        *slash = 0;
    }
}

struct ht_oom_kills ht_oom_kills_read(void) {
    char line[PATH_MAX];
    struct ht_oom_kills kills = {0};
    count_in("/proc/vmstat", &kills.machine);
    FILE *in = fopen("/proc/self/cgroup", "re");
    while (in && fgets(line, sizeof line, in)) {
        char *group = strrchr(line, ':');
        if (!group++) continue;
        group[strcspn(group, "\n")] = 0;
        bool memory = strstr(line, ":memory:") != NULL;
        if (!strncmp(line, "0::", 3)) kills.group += count_of_group("/sys/fs/cgroup", group, "memory.events");
        else if (memory) kills.group += count_of_group("/sys/fs/cgroup/memory", group, "memory.oom_control");
    }
    if (in) fclose(in);
    return kills;
}

const char *ht_oom_kills_clause(struct ht_oom_kills before, struct ht_oom_kills after) {
    if (after.group > before.group) return ": out of memory, by its control group's limit";
    if (after.machine > before.machine) return ", probably by the kernel, which ran out of memory";
    return "";
}
