// SPDX-License-Identifier: Apache-2.0
#include "process_rank.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "print.h"
#include "talk.h"

// A child has to use half as much again as the program that was started.
static const double STARTED_TIMES = 1.5;
// Less than any difference in what was used.
static const double CALLS_SHARE = 1e-3;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

void process_use_most(struct process_use *most, const struct process_use *use) {
    most->calls = larger(most->calls, use->calls);
    most->cpu_ns = larger(most->cpu_ns, use->cpu_ns);
    most->anon_bytes = larger(most->anon_bytes, use->anon_bytes);
}

static double share_of(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

double process_rank(const struct process_use *use, const struct process_use *most) {
    double rank = share_of(use->cpu_ns, most->cpu_ns) + share_of(use->anon_bytes, most->anon_bytes) +
                  CALLS_SHARE * share_of(use->calls, most->calls);
    if (!use->calls) return 0;  // there is nothing to replay
    if (use->started) rank *= STARTED_TIMES;
    return use->shell ? rank / SHELL_TIMES_MORE : rank;
}

// ---- shells ----

const char *shell_name(const char *path) {
    static const char *const shells[] = {"sh",   "bash", "dash", "zsh",  "ksh",    "mksh",
                                         "fish", "ash",  "csh",  "tcsh", "busybox"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(name, shells[i])) return shells[i];
    return NULL;
}

const char *shell_log_name(const struct ht_raw_log *log) {
    const char *executable = ht_raw_context(log, "executable");
    return executable ? shell_name(executable) : NULL;
}

struct better {
    char path[2 * PATH_MAX], executable[PATH_MAX];
    uint64_t calls;
};

static void take(struct better *best, const char *path, const char *run) {
    struct ht_raw_log log;
    struct ht_error error;
    uint64_t calls;
    uint32_t threads;
    if (ht_raw_open(&log, path, &error)) return;
    const char *its_run = ht_raw_context(&log, "run"), *executable = ht_raw_context(&log, "executable");
    if (its_run && !strcmp(its_run, run) && !ht_raw_count_calls(&log, &calls, &threads, &error) &&
        calls > best->calls) {
        best->calls = calls;
        snprintf(best->path, sizeof best->path, "%s", path);
        snprintf(best->executable, PATH_MAX, "%s", executable ? executable : "another process");
    }
    ht_raw_close(&log);
}

// In the folder of the log.
static void find_better(const struct ht_raw_log *log, const char *run, struct better *best) {
    const char *slash = strrchr(log->path, '/');
    char folder[PATH_MAX], path[2 * PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - log->path) : 1, slash ? log->path : ".");
    DIR *listing = opendir(*folder ? folder : "/");
    struct dirent *entry;
    while (listing && (entry = readdir(listing))) {
        if (strncmp(entry->d_name, "malloc-footprint.", 17)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        take(best, path, run);
    }
    if (listing) closedir(listing);
}

void shell_log_say_better(const char *path) {
    struct ht_raw_log log;
    struct ht_error error;
    struct better best = {.calls = 0};
    uint64_t calls = 0;
    uint32_t threads;
    char here[HT_NUMBER_OF_BYTES], there[32];
    if (ht_raw_open(&log, path, &error)) return;
    const char *shell = shell_log_name(&log), *run = ht_raw_context(&log, "run");
    if (shell && run && !ht_raw_count_calls(&log, &calls, &threads, &error)) find_better(&log, run, &best);
    ht_raw_close(&log);
    if (best.calls / SHELL_TIMES_MORE <= calls) return;
    const char *slash = strrchr(best.executable, '/');
    ht_print(stderr, "this is the log of a shell, %s, with %s; %s has %s: heaptape convert %s\n", shell,
             ht_number_of(here, calls, "call"), slash ? slash + 1 : best.executable,
             ht_grouped(there, best.calls), best.path);
}
