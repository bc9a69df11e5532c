// SPDX-License-Identifier: Apache-2.0
#include "machine_activity.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "kernel_numbers.h"
#include "now.h"

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

static double read_throttled(void) {
    struct ht_control_group group;
    if (!ht_control_group_here("cpu", &group)) return NAN;
    return group.unified ? ht_control_group_number(&group, "cpu.stat", "throttled_usec") / 1e6
                         : ht_control_group_number(&group, "cpu.stat", "throttled_time") / 1e9;
}

void ht_activity_read(struct ht_activity *activity) {
    activity->wall_s = ht_now_s();
    activity->own_s = own_seconds(RUSAGE_SELF) + own_seconds(RUSAGE_CHILDREN);
    read_processors(activity);
    activity->throttled_s = read_throttled();
    activity->swapped_bytes =
        (ht_number_in_file("/proc/vmstat", "pswpin") + ht_number_in_file("/proc/vmstat", "pswpout")) *
        (double)sysconf(_SC_PAGESIZE);
}
