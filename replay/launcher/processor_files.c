#include "processor_files.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// The lines about one processor, again for each.
static void write_cpuinfo(FILE *to, uint32_t processors) {
    for (uint32_t i = 0; i < processors; i++) {
        FILE *file = fopen("/proc/cpuinfo", "re");
        char line[8192];
        while (file && fgets(line, sizeof line, file) && line[0] != '\n') {
            if (!strncmp(line, "processor", strlen("processor"))) fprintf(to, "processor\t: %u\n", i);
            else fputs(line, to);
        }
        fputc('\n', to);
        if (file) fclose(file);
    }
}

// The first line is of all processors together; one of each follows.
static void write_stat(FILE *to, uint32_t processors) {
    FILE *file = fopen("/proc/stat", "re");
    char line[8192];
    bool listed = false;
    while (file && fgets(line, sizeof line, file)) {
        size_t digits = strspn(line + strcspn(line, "0123456789"), "0123456789");
        bool one = !strncmp(line, "cpu", 3) && line[3] != ' ' && digits;
        if (!one) fputs(line, to);
        for (uint32_t i = 0; one && !listed && i < processors; i++)
            fprintf(to, "cpu%u%s", i, line + strcspn(line, " "));
        listed = listed || one;
    }
    if (file) fclose(file);
}

static void write_list(FILE *to, uint32_t processors) {
    if (processors == 1) fputs("0\n", to);
    else fprintf(to, "0-%u\n", processors - 1);
}

// No control group leaves less than all of them.
static void write_quota(FILE *to, uint32_t processors) {
    (void)processors;
    fputs("max 100000\n", to);
}

static void write_old_quota(FILE *to, uint32_t processors) {
    (void)processors;
    fputs("-1\n", to);
}

static const struct {
    const char *path;  // * stands for anything
    void (*write)(FILE *to, uint32_t processors);
} known[] = {
    {"/sys/devices/system/cpu/online", write_list},
    {"/sys/devices/system/cpu/possible", write_list},
    {"/sys/devices/system/cpu/present", write_list},
    {"/sys/fs/cgroup*/cpuset.cpus", write_list},
    {"/sys/fs/cgroup*/cpuset.cpus.effective", write_list},
    {"/sys/fs/cgroup*/cpu.max", write_quota},
    {"/sys/fs/cgroup*/cpu.cfs_quota_us", write_old_quota},
    {"/proc/cpuinfo", write_cpuinfo},
    {"/proc/stat", write_stat},
};

int ht_processor_file(const char *path, uint32_t processors) {
    size_t i = 0, count = sizeof known / sizeof *known;
    while (i < count && fnmatch(known[i].path, path, 0)) i++;
    if (i == count) return HT_NOT_OF_PROCESSORS;
    int fd = memfd_create("heaptape-processors", MFD_CLOEXEC), kept = fd < 0 ? -1 : dup(fd);
    FILE *file = kept < 0 ? NULL : fdopen(kept, "w");
    if (!file) {
        if (kept >= 0) close(kept);
        if (fd >= 0) close(fd);
        return -1;
    }
    known[i].write(file, processors);
    bool failed = fclose(file) != 0 || lseek(fd, 0, SEEK_SET) != 0;
    if (!failed) return fd;
    close(fd);
    return -1;
}
