#include "machine_memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

// The number in a file that holds one. A limit that says "max" is none.
static uint64_t number_in(const char *folder, const char *file) {
    char path[PATH_MAX + 64];
    uint64_t number = UINT64_MAX;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path) return number;
    FILE *in = fopen(path, "re");
    if (!in) return number;
    if (fscanf(in, "%" SCNu64, &number) != 1) number = UINT64_MAX;
    fclose(in);
    return number;
}

static uint64_t machine_available_bytes(void) {
    char line[128];
    uint64_t kib, bytes = UINT64_MAX;
    FILE *in = fopen("/proc/meminfo", "re");
    if (!in) return bytes;
    while (bytes == UINT64_MAX && fgets(line, sizeof line, in)) {
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) bytes = kib * 1024;
    }
    fclose(in);
    return bytes;
}

// What the group and all groups above it leave, up to where the hierarchy is mounted.
static uint64_t group_bytes(const char *mount, char *group, const char *limit_file, const char *usage_file) {
    uint64_t left = UINT64_MAX;
    for (;;) {
        char folder[PATH_MAX + 32];
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        uint64_t limit = number_in(folder, limit_file), usage = number_in(folder, usage_file);
        if (limit != UINT64_MAX && usage != UINT64_MAX)
            left = smaller(left, limit > usage ? limit - usage : 0);
        char *slash = strrchr(group, '/');
        if (!slash) return left;
        *slash = 0;
    }
}

static uint64_t groups_bytes(void) {
    char line[PATH_MAX];
    uint64_t left = UINT64_MAX;
    FILE *in = fopen("/proc/self/cgroup", "re");
    if (!in) return left;
    while (fgets(line, sizeof line, in)) {
        char *group = strrchr(line, ':');
        if (!group++) continue;
        group[strcspn(group, "\n")] = 0;
        if (!strncmp(line, "0::", 3)) {
            left = smaller(left, group_bytes("/sys/fs/cgroup", group, "memory.max", "memory.current"));
        } else if (strstr(line, ":memory:")) {
            left = smaller(left, group_bytes("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
                                             "memory.usage_in_bytes"));
        }
    }
    fclose(in);
    return left;
}

uint64_t ht_memory_available_bytes(void) {
    struct rlimit space;
    uint64_t bytes = smaller(machine_available_bytes(), groups_bytes());
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        bytes = smaller(bytes, space.rlim_cur);
    return bytes;
}
