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

// "always [madvise] never" says which is on.
static void read_thp(char *text, size_t room) {
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char line[128], *open, *close;
    if (file && fgets(line, sizeof line, file) && (open = strchr(line, '[')) && (close = strchr(open, ']'))) {
        *close = 0;
        snprintf(text, room, "%s", open + 1);
    }
    if (file) fclose(file);
}

void ht_machine_read(struct ht_machine *machine) {
    struct utsname system;
    memset(machine, 0, sizeof *machine);
    read_cpu(machine->cpu, sizeof machine->cpu);
    read_thp(machine->thp, sizeof machine->thp);
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
