// SPDX-License-Identifier: Apache-2.0
#include "processor_files.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shown_affinity.h"

enum { LINE_BYTES = 8192 };

// What is written, and where from.
struct page {
    FILE *to;
    const char *path;  // of the machine's own
    const struct ht_shown_affinity *affinity;
};

static bool begins(const char *line, const char *word) { return !strncmp(line, word, strlen(word)); }

// Lines with a number that is another one for each processor, or that counts them.
static bool write_cpuinfo_line(FILE *to, const char *line, uint32_t processor, uint32_t processors) {
    static const char *const numbers[] = {"processor", "core id", "apicid", "initial apicid"},
                             *const counts[] = {"siblings", "cpu cores"};
    size_t label = strcspn(line, "\t:");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (label != strlen(numbers[i]) || !begins(line, numbers[i])) continue;
        return fprintf(to, "%.*s: %u\n", (int)strcspn(line, ":"), line, processor) > 0;
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (label != strlen(counts[i]) || !begins(line, counts[i])) continue;
        return fprintf(to, "%.*s: %u\n", (int)strcspn(line, ":"), line, processors) > 0;
    }
    return fputs(line, to) >= 0;
}

// The lines about the first processor, again for each.
static void write_cpuinfo(const struct page *page) {
    uint32_t processors = page->affinity->shown;
    for (uint32_t i = 0; i < processors; i++) {
        FILE *file = fopen(page->path, "re");
        char line[LINE_BYTES];
        while (file && fgets(line, sizeof line, file) && line[0] != '\n')
            write_cpuinfo_line(page->to, line, i, processors);
        fputc('\n', page->to);
        if (file) fclose(file);
    }
}

// The first line is of all processors together; one of each follows.
static void write_stat(const struct page *page) {
    FILE *file = fopen(page->path, "re");
    char line[LINE_BYTES];
    bool listed = false;
    while (file && fgets(line, sizeof line, file)) {
        size_t digits = strspn(line + strcspn(line, "0123456789"), "0123456789");
        bool one = begins(line, "cpu") && line[3] != ' ' && digits;
        if (!one) fputs(line, page->to);
        for (uint32_t i = 0; one && !listed && i < page->affinity->shown; i++)
            fprintf(page->to, "cpu%u%s", i, line + strcspn(line, " "));
        listed = listed || one;
    }
    if (file) fclose(file);
}

// Such as 0-3,8.
static void list(FILE *to, const cpu_set_t *set) {
    const char *between = "";
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        uint32_t first = i;
        if (!CPU_ISSET(i, set)) continue;
        while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, set)) i++;
        fprintf(to, i > first ? "%s%u-%u" : "%s%u", between, first, i);
        between = ",";
    }
    fputc('\n', to);
}

// Words of 32 bits, the highest first, of all that there are.
static void map(FILE *to, const cpu_set_t *set, uint32_t processors) {
    for (uint32_t word = (processors + 31) / 32; word-- > 0;) {
        uint32_t bits = 0, width = processors - 32 * word;
        for (uint32_t i = 0; i < 32; i++) bits |= (uint32_t)(CPU_ISSET(32 * word + i, set) != 0) << i;
        fprintf(to, "%0*x%s", (int)(width < 32 ? (width + 3) / 4 : 8), bits, word ? "," : "\n");
    }
}

static void all(const struct page *page, cpu_set_t *set) {
    CPU_ZERO(set);
    for (uint32_t i = 0; i < page->affinity->shown; i++) CPU_SET(i, set);
}

static void write_list(const struct page *page) {
    cpu_set_t set;
    all(page, &set);
    list(page->to, &set);
}

static void write_map(const struct page *page) {
    cpu_set_t set;
    all(page, &set);
    map(page->to, &set, page->affinity->shown);
}

// All processors are on the first node.
static void write_node(const struct page *page) { fputs("0\n", page->to); }

static void write_empty_list(const struct page *page) { fputc('\n', page->to); }

static void write_empty_map(const struct page *page) {
    cpu_set_t set;
    CPU_ZERO(&set);
    map(page->to, &set, page->affinity->shown);
}

// Of the thread that the path ends in.
static void write_status(const struct page *page) {
    char line[LINE_BYTES];
    const char *end = page->path + strlen(page->path) - strlen("/status"), *number = end;
    while (number[-1] != '/') number--;
    cpu_set_t set;
    ht_shown_affinity_of(page->affinity, atoi(number), &set);
    FILE *file = fopen(page->path, "re");
    while (file && fgets(line, sizeof line, file)) {
        int label = (int)strcspn(line, "\t") + 1;
        if (begins(line, "Cpus_allowed:\t")) {
            fprintf(page->to, "%.*s", label, line);
            map(page->to, &set, page->affinity->shown);
        } else if (begins(line, "Cpus_allowed_list:\t")) {
            fprintf(page->to, "%.*s", label, line);
            list(page->to, &set);
        } else fputs(line, page->to);
    }
    if (file) fclose(file);
}

// No control group leaves less than all of them.
static void write_quota(const struct page *page) { fputs("max 100000\n", page->to); }

static void write_old_quota(const struct page *page) { fputs("-1\n", page->to); }

static const struct {
    const char *path;  // * stands for anything
    void (*write)(const struct page *page);
} known[] = {
    {"/sys/devices/system/cpu/online", write_list},
    {"/sys/devices/system/cpu/possible", write_list},
    {"/sys/devices/system/cpu/present", write_list},
    {"/sys/devices/system/cpu/offline", write_empty_list},
    {"/sys/devices/system/node/has_cpu", write_node},
    {"/sys/devices/system/node/node0/cpulist", write_list},
    {"/sys/devices/system/node/node0/cpumap", write_map},
    {"/sys/devices/system/node/node*/cpulist", write_empty_list},
    {"/sys/devices/system/node/node*/cpumap", write_empty_map},
    {"/sys/fs/cgroup*/cpuset.cpus", write_list},
    {"/sys/fs/cgroup*/cpuset.cpus.effective", write_list},
    {"/sys/fs/cgroup*/cpuset.effective_cpus", write_list},
    {"/sys/fs/cgroup*/cpu.max", write_quota},
    {"/sys/fs/cgroup*/cpu.cfs_quota_us", write_old_quota},
    {"/proc/cpuinfo", write_cpuinfo},
    {"/proc/stat", write_stat},
    {"/proc/[1-9]*/status", write_status},
};

int ht_processor_file(const char *path, const struct ht_shown_affinity *affinity) {
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
    known[i].write(&(struct page){file, path, affinity});
    bool failed = fclose(file) != 0 || lseek(fd, 0, SEEK_SET) != 0;
    if (!failed) return fd;
    close(fd);
    return -1;
}
