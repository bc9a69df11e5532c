// SPDX-License-Identifier: Apache-2.0
#include "found_logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ended_logs.h"
#include "grow.h"
#include "inner_allocators.h"
#include "log_share.h"
#include "map64.h"
#include "process_rank.h"
#include "talk.h"

static bool is_named(const char *path, size_t length, const char *name) {
    enum { KERNEL_KEEPS = 15 };
    const char *slash = memrchr(path, '/', length);
    size_t start = slash ? (size_t)(slash + 1 - path) : 0;
    size_t kept = length - start < KERNEL_KEEPS ? length - start : KERNEL_KEEPS;
    return strlen(name) == kept && !memcmp(path + start, name, kept);
}

// A file that cannot be read may be one.
static bool is_script(const char *path, size_t length) {
    char copy[PATH_MAX], head[2];
    snprintf(copy, sizeof copy, "%.*s", (int)length, path);
    int fd = open(copy, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? 0 : read(fd, head, sizeof head);
    if (fd >= 0) close(fd);
    return got < (ssize_t)sizeof head || !memcmp(head, "#!", sizeof head);
}

// Whether the log is of the image in which the program ended: it saw the exit, or has the name that the
// program had. A script has its own name, which is the second word of its interpreter's command.
static bool goes_to_the_end(const struct ht_raw_log *log, const struct ending *ending) {
    const char *executable = ht_raw_context(log, "executable"), *command = ht_raw_context(log, "command");
    if (log->header.state == HT_RAW_EXITED || log->header.state == HT_RAW_STOPPED ||
        !WIFEXITED(ending->wait_status) || !*ending->name)
        return true;
    if (executable && is_named(executable, strlen(executable), ending->name)) return true;
    size_t first = command ? strcspn(command, " ") : 0;
    if (!first || command[first] != ' ') return first && is_named(command, first, ending->name);
    const char *script = command + first + 1;
    size_t second = strcspn(script, " ");
    return is_named(command, first, ending->name) ||
           (is_named(script, second, ending->name) && is_script(script, second));
}

// A warm append, as measured in the process itself, is the least that a call costs. The hook around it, and what is not in the
// caches, make that three to seven times as much; to load the shim takes some hundred microseconds.
enum { MOST_APPENDS = 8 };
static const double LOADING_NS = 1e6;

// Finds what the appends cost at least, and what all else costs at most. The time spent on the start, chunks, samples and large
// blocks, which was measured as well, is part of the latter.
static void find_cost(struct found_log *entry, const struct ht_raw_log *log) {
    const struct ht_raw_header *header = &log->header;
    double ns_per_count = ht_raw_ns_per_stamp(log) / (double)(UINT64_C(1) << header->clock_shift);
    if (!header->append_cost_calls) return;
    entry->append_ns =
        ns_per_count * (double)entry->calls * header->append_cost_counts / header->append_cost_calls;
    // Elapsed, and the thread may have lost its processor meanwhile: so this is the most that it was.
    entry->upkeep_ns =
        ns_per_count * (double)header->upkeep_counts + (MOST_APPENDS - 1) * entry->append_ns + LOADING_NS;
}

static char *copy_of(const struct ht_raw_log *log, const char *key) {
    const char *value = ht_raw_context(log, key);
    return value ? strdup(value) : NULL;
}

// Libraries with an allocator of their own, in words.
static char *inside_of(const struct ht_raw_log *log) {
    char words[HT_INNER_ALLOCATORS_BYTES];
    const char *files = ht_raw_context(log, "inner_allocators");
    return files ? strdup(ht_inner_allocators_words(words, files)) : NULL;
}

static void count(struct found_logs *found, struct found_log *entry, const struct ht_raw_log *log) {
    struct ht_error error;
    struct stat status;
    if (ht_raw_count_calls(log, &entry->calls, &entry->threads, &error))
        ht_complain("heaptape record", &error);
    if (!fstat(log->fd, &status)) entry->bytes = (uint64_t)status.st_blocks * 512;
    entry->bypassed_by = copy_of(log, "bypassed_by");
    entry->own_malloc = copy_of(log, "own_malloc");
    entry->namespaces = copy_of(log, "other_namespaces");
    entry->restricted = copy_of(log, "out_of_reach");
    entry->executable = copy_of(log, "executable");
    entry->command = copy_of(log, "command");
    entry->hooks = copy_of(log, "linked_hooks");
    entry->no_sites = copy_of(log, "no_call_sites");
    entry->shell = shell_log_name(log);
    entry->header = log->header;
    struct log_use use = log_use_read(log);
    entry->share = use.share;
    entry->cpu_ns = use.cpu_ns;
    entry->share.inside = entry->inside = inside_of(log);
    find_cost(entry, log);
    found->calls += entry->calls;
}

// False for want of memory.
static bool add_log(struct found_logs *found, const struct ht_raw_log *log) {
    if (!ht_grow(&found->log, &found->room, found->count + 1, sizeof *found->log)) return false;
    struct found_log *entry = &found->log[found->count++];
    *entry = (struct found_log){.path = strdup(log->path)};
    count(found, entry, log);
    return entry->path != NULL;
}

// False for want of memory.
static bool add_log_of_run(struct found_logs *found, const char *path, const char *id,
                           const struct ending *ending) {
    struct ht_raw_log log;
    struct ht_error error;
    if (ht_raw_open(&log, path, &error)) return true;  // another's, half made, or no log at all
    bool ours = log_is_of_run(&log, id), started = (pid_t)log.header.pid == ending->pid;
    if (ours) log_cut(&log);
    if (ours && started) {
        found->of_program = true;
        found->to_the_end |= goes_to_the_end(&log, ending);
    }
    bool fits = !ours || add_log(found, &log);
    if (ours && fits) {
        struct found_log *entry = &found->log[found->count - 1];
        entry->started = started;
        if (started && !found->hooks) found->hooks = entry->hooks;
    }
    ht_raw_close(&log);
    return fits;
}

static int main_first(const void *a, const void *b) {
    const struct found_log *left = a, *right = b;
    return (left->rank < right->rank) - (left->rank > right->rank);
}

static struct process_use use_of(const struct found_log *log) {
    return (struct process_use){.calls = log->calls,
                                .cpu_ns = log->cpu_ns,
                                .anon_bytes = log->share.anon_bytes,
                                .shell = log->shell != NULL,
                                .started = log->started};
}

static void rank(struct found_logs *found) {
    struct process_use most = {0};
    for (size_t i = 0; i < found->count; i++) {
        struct process_use use = use_of(&found->log[i]);
        process_use_most(&most, &use);
    }
    for (size_t i = 0; i < found->count; i++) {
        struct process_use use = use_of(&found->log[i]);
        found->log[i].rank = process_rank(&use, &most);
    }
    if (found->count) qsort(found->log, found->count, sizeof *found->log, main_first);
}

// A process that executes programs has a log for each.
static void count_processes(struct found_logs *found) {
    struct map64 numbers;
    if (!map64_init(&numbers)) return;
    for (size_t i = 0; i < found->count && map64_put(&numbers, found->log[i].header.pid, 1); i++) continue;
    found->processes = numbers.count;
    map64_free(&numbers);
}

void found_logs_of_run(struct found_logs *found, const struct recorded_run *run,
                       const struct ending *ending) {
    DIR *folder = opendir(run->directory);
    struct dirent *entry;
    char path[PATH_MAX];
    *found = (struct found_logs){0};
    while (folder && (entry = readdir(folder)))
        if (log_has_name(entry->d_name) &&
            snprintf(path, sizeof path, "%s/%s", run->directory, entry->d_name) < PATH_MAX &&
            !add_log_of_run(found, path, run->id, ending))
            break;
    if (folder) closedir(folder);
    count_processes(found);
    rank(found);
}

// ---- a folder ----

static void name_run(char *run, size_t bytes, const struct ht_raw_log *log) {
    const char *id = ht_raw_context(log, "run");
    snprintf(run, bytes, "%s", id ? id : "");
}

// Calls it for each log in the folder, as long as it returns true; complains: says of a log why it cannot be read. False with errno.
static bool each_log(const char *name, bool (*take)(void *context, const struct ht_raw_log *log),
                     void *context, bool complains) {
    DIR *folder = opendir(name);
    struct dirent *entry;
    char path[PATH_MAX];
    struct ht_raw_log log;
    struct ht_error error;
    bool goes_on = true;
    if (!folder) return false;
    while (goes_on && (entry = readdir(folder))) {
        if (!log_has_name(entry->d_name) ||
            snprintf(path, sizeof path, "%s/%s", name, entry->d_name) >= PATH_MAX)
            continue;
        if (ht_raw_open(&log, path, &error)) {
            if (complains) ht_complain("heaptape record", &error);
            continue;
        }
        goes_on = take(context, &log);
        ht_raw_close(&log);
    }
    closedir(folder);
    return true;
}

struct listing {
    struct found_logs *found;
    char run[64];        // of the newest log; empty: none of `record`
    uint64_t newest_ns;  // when that began
    uint64_t oldest_ns;  // of that run's logs
    uint32_t started;    // the process of the oldest
};

static bool find_newest(void *context, const struct ht_raw_log *log) {
    struct listing *listing = context;
    if (log->header.start_realtime_ns < listing->newest_ns) return true;
    listing->newest_ns = log->header.start_realtime_ns;
    name_run(listing->run, sizeof listing->run, log);
    return true;
}

static bool add_listed(void *context, const struct ht_raw_log *log) {
    struct listing *listing = context;
    char run[sizeof listing->run];
    name_run(run, sizeof run, log);
    if (strcmp(run, listing->run)) return true;
    if (log->header.start_realtime_ns < listing->oldest_ns) {
        listing->oldest_ns = log->header.start_realtime_ns;
        listing->started = log->header.pid;
    }
    return add_log(listing->found, log);
}

bool found_logs_in(struct found_logs *found, const char *folder) {
    *found = (struct found_logs){0};
    struct listing listing = {.found = found, .oldest_ns = UINT64_MAX};
    if (!each_log(folder, find_newest, &listing, true) || !each_log(folder, add_listed, &listing, false))
        return false;
    for (size_t i = 0; i < found->count; i++)
        found->log[i].started = found->log[i].header.pid == listing.started;
    count_processes(found);
    rank(found);
    return true;
}

struct recording_cost found_logs_cost(const struct found_logs *found, const struct ending *ending) {
    struct recording_cost cost = {0};
    for (size_t i = 0; i < found->count; i++) {
        cost.calls_ns += found->log[i].append_ns;
        cost.rest_ns += found->log[i].upkeep_ns;
    }
    // A program that left its processors to others took less than what passed on the clock.
    if (found->processes == 1 && found->of_program) {
        if (cost.calls_ns > ending->cpu_ns) cost.calls_ns = ending->cpu_ns;
        if (cost.rest_ns > ending->cpu_ns - cost.calls_ns) cost.rest_ns = ending->cpu_ns - cost.calls_ns;
    }
    return cost;
}

void found_logs_free(struct found_logs *found) {
    for (size_t i = 0; i < found->count; i++) {
        free(found->log[i].path);
        free(found->log[i].bypassed_by);
        free(found->log[i].own_malloc);
        free(found->log[i].namespaces);
        free(found->log[i].restricted);
        free(found->log[i].inside);
        free(found->log[i].executable);
        free(found->log[i].command);
        free(found->log[i].hooks);
        free(found->log[i].no_sites);
    }
    free(found->log);
}
