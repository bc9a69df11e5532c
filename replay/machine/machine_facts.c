// SPDX-License-Identifier: Apache-2.0
#include "machine_facts.h"

#include <gnu/libc-version.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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
