#include "machine_activity.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

static double seconds(struct timeval time) { return (double)time.tv_sec + (double)time.tv_usec / 1e6; }

static double own_seconds(int who) {
    struct rusage usage;
    if (getrusage(who, &usage)) return 0;
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, in clock ticks.
static void read_processors(struct ht_activity *activity) {
    FILE *file = fopen("/proc/stat", "re");
    double user, nice, system, idle, waiting, irq, softirq, steal;
    long ticks = sysconf(_SC_CLK_TCK);
    activity->busy_s = activity->stolen_s = NAN;
    if (!file) return;
    if (ticks > 0 && fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle,
                            &waiting, &irq, &softirq, &steal) == 8) {
        activity->busy_s = (user + nice + system + irq + softirq) / (double)ticks;
        activity->stolen_s = steal / (double)ticks;
    }
    fclose(file);
}

// Of the control group that this process is in, by version 2 or else by version 1 of their file system.
static double read_throttled(void) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[512], path[640];
    double throttled_s = NAN;
    while (file && isnan(throttled_s) && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        if (!controllers[1]) {
            snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.stat", group);
            throttled_s = ht_number_in_file(path, "throttled_usec") / 1e6;
        } else if (!strcmp(controllers + 1, "cpu") || !strncmp(controllers + 1, "cpu,", 4)) {
            snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.stat", group);
            throttled_s = ht_number_in_file(path, "throttled_time") / 1e9;
        }
    }
    if (file) fclose(file);
    return throttled_s;
}

void ht_activity_read(struct ht_activity *activity) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    activity->wall_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    activity->own_s = own_seconds(RUSAGE_SELF) + own_seconds(RUSAGE_CHILDREN);
    read_processors(activity);
    activity->throttled_s = read_throttled();
    activity->swapped_bytes =
        (ht_number_in_file("/proc/vmstat", "pswpin") + ht_number_in_file("/proc/vmstat", "pswpout")) *
        (double)sysconf(_SC_PAGESIZE);
}
