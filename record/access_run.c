// SPDX-License-Identifier: Apache-2.0
#include "access_run.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "print.h"
#include "recorded_run.h"
#include "simulation.h"
#include "talk.h"

static const char pattern[] = "malloc-footprint.%p.acc";

// The accesses files that were written since, each on a line of stderr, the program's own first. Returns how
// many.
static size_t say_files(const char *directory, const struct ending *ending, struct timespec since,
                        const struct record_talk *talk) {
    char own[64], bytes[32];
    struct dirent *entry;
    struct stat status;
    size_t count = 0;
    DIR *folder = opendir(directory);
    snprintf(own, sizeof own, "malloc-footprint.%d.acc", (int)ending->pid);
    while (folder && (entry = readdir(folder))) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".acc") || strncmp(entry->d_name, pattern, strcspn(pattern, "%"))) continue;
        if (fstatat(dirfd(folder), entry->d_name, &status, 0)) continue;
        if (status.st_mtim.tv_sec < since.tv_sec) continue;
        count++;
        if (talk->quiet || (strcmp(entry->d_name, own) && !talk->verbose)) continue;
        ht_print(stderr, "heaptape record: %s/%s: calls and accesses, %s\n", directory, entry->d_name,
                 ht_bytes(bytes, (double)status.st_size));
    }
    if (folder) closedir(folder);
    return count;
}

static void say_next(const char *directory, const struct ending *ending) {
    char file[4200];
    snprintf(file, sizeof file, "%s/malloc-footprint.%d.acc", directory, (int)ending->pid);
    ht_print(stderr,
             "next: heaptape convert %s -o app.bin\n"
             "      heaptape replay --pass count --splice %s app.bin\n",
             file, file);
}

int access_run(char **command, const char *directory, bool sampled, const struct record_talk *talk,
               int failed) {
    static struct ht_simulation_words words;
    char record[4200];
    const char *problem;
    struct ending ending;
    struct timespec since;
    snprintf(record, sizeof record, "%s/%s", directory, pattern);
    const struct ht_simulation simulation = {.record = record, .sampled = sampled};
    if (!ht_simulation_prepare(&words, &simulation, &problem)) {
        ht_print(stderr, "heaptape record: --accesses: %s\n", problem);
        return failed;
    }
    clock_gettime(CLOCK_REALTIME, &since);
    const struct recorded_run run = {.command = command, .directory = directory, .simulation = &words};
    if (!recorded_run(&run, &ending)) {
        ht_print(stderr, "heaptape record: cannot start %s: %s\n", command[0], strerror(errno));
        return failed;
    }
    int status = WIFSIGNALED(ending.wait_status) ? 128 + WTERMSIG(ending.wait_status)
                                                 : WEXITSTATUS(ending.wait_status);
    if (!say_files(directory, &ending, since, talk)) {
        ht_print(stderr, "heaptape record: %s left no accesses in %s\n", command[0], directory);
        return status ? status : failed;
    }
    if (!talk->quiet) say_next(directory, &ending);
    return status;
}
