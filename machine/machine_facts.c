// SPDX-License-Identifier: Apache-2.0
#include "machine_facts.h"

#include <gnu/libc-version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "machine_memory.h"
#include "now.h"

static void read_cpu(char *text, size_t room) {
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[512];
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(text, room, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    if (file) fclose(file);
}

void ht_chosen_word(const char *line, char *text, size_t room) {
    const char *open = strchr(line, '['), *close = open ? strchr(open, ']') : NULL;
    *text = 0;
    if (close) snprintf(text, room, "%.*s", (int)(close - open - 1), open + 1);
}

static void read_word(const char *path, char *text, size_t room) {
    FILE *file = fopen(path, "re");
    *text = 0;
    if (file && fgets(text, (int)room, file)) text[strcspn(text, "\n")] = 0;
    if (file) fclose(file);
}

static void read_thp(char *text, size_t room) {
    char line[128];
    read_word("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    ht_chosen_word(line, text, room);
}

static void read_frequency(struct ht_machine *machine) {
    static const struct {
        const char *path, *when_on, *off;
    } switches[] = {
        {"/sys/devices/system/cpu/intel_pstate/no_turbo", "0",
         "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"},
        {"/sys/devices/system/cpu/cpufreq/boost", "1", "echo 0 > /sys/devices/system/cpu/cpufreq/boost"},
    };
    char word[64];
    read_word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", machine->governor,
              sizeof machine->governor);
    machine->turbo = -1;
    for (size_t i = 0; i < sizeof switches / sizeof *switches && machine->turbo < 0; i++) {
        read_word(switches[i].path, word, sizeof word);
        if (!word[0]) continue;
        machine->turbo = !strcmp(word, switches[i].when_on);
        machine->turbo_off = switches[i].off;
    }
}

void ht_machine_read(struct ht_machine *machine) {
    struct utsname system;
    memset(machine, 0, sizeof *machine);
    read_cpu(machine->cpu, sizeof machine->cpu);
    read_thp(machine->thp, sizeof machine->thp);
    read_frequency(machine);
    if (uname(&system) == 0) {
        snprintf(machine->kernel, sizeof machine->kernel, "%.20s %.90s %.40s", system.sysname, system.release,
                 system.machine);
    }
    snprintf(machine->libc, sizeof machine->libc, "glibc %s", gnu_get_libc_version());
    machine->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
}

double ht_machine_load(void) {
    double load;
    return getloadavg(&load, 1) == 1 ? load : NAN;
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
