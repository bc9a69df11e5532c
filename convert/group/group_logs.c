// SPDX-License-Identifier: Apache-2.0
#include "group_logs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "group_trace.h"
#include "grow.h"
#include "inheritance.h"
#include "print.h"
#include "raw_state.h"

static const char PREFIX[] = "malloc-footprint.", LOG_ENDING[] = ".mraw", SNAPSHOTS_ENDING[] = ".group";

static bool has_ending(const char *name, const char *ending) {
    size_t length = strlen(name), end = strlen(ending);
    return length > end && !strcmp(name + length - end, ending);
}

static char *path_in(const char *folder, const char *name) {
    char *path;
    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

// ---- the snapshots ----

static int read_snapshots(struct group_logs *logs, const char *path, struct ht_error *error) {
    logs->has_snapshots = true;
    return ht_group_snapshots_read(path, &logs->snapshots, error);
}

// The folder's only file of snapshots. Returns 0, also where there is none, or -1 with error.
static int find_snapshots(struct group_logs *logs, struct ht_error *error) {
    DIR *folder = opendir(logs->folder);
    char *found = NULL;
    int status = folder ? 0 : ht_error_system(error, logs->folder, "cannot read the folder");
    if (status) error->status = HT_EXIT_INPUT;
    for (const struct dirent *entry; !status && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) || !has_ending(entry->d_name, SNAPSHOTS_ENDING))
            continue;
        if (found) {
            ht_error_input(error, logs->folder, 0,
                           "expected the files of one group, found several: name one of them, such as %s",
                           found);
            status = -1;
        } else if (!(found = path_in(logs->folder, entry->d_name))) {
            status = ht_error_memory(error, logs->folder, "cannot read the folder");
        }
    }
    if (folder) closedir(folder);
    if (!status && found) status = read_snapshots(logs, found, error);
    free(found);
    return status;
}

// Is it the folder, or one of its files of snapshots?
static int take_path(struct group_logs *logs, const char *path, struct ht_error *error) {
    struct stat status;
    if (stat(path, &status)) {
        ht_error_system(error, path, "cannot open");
        error->status = HT_EXIT_INPUT;
        return -1;
    }
    const char *slash = strrchr(path, '/');
    bool is_folder = S_ISDIR(status.st_mode);
    logs->folder = is_folder ? strdup(path) : slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!logs->folder) return ht_error_memory(error, path, "cannot open");
    return is_folder ? find_snapshots(logs, error) : read_snapshots(logs, path, error);
}

// ---- the logs ----

static void leave_out(const char *message) {
    ht_print(stderr, "heaptape convert: warning: left out: %s\n", message);
}

// Returns 0, also where the log is left out, or -1 with error.
static int add_log(struct group_logs *logs, size_t *room, char *path, struct ht_error *error) {
    struct ht_raw_log log;
    struct ht_error wrong;
    if (ht_raw_open(&log, path, &wrong)) {
        leave_out(wrong.message);
        free(path);
        return 0;
    }
    if (!ht_grow(&logs->log, room, logs->count + 1, sizeof *logs->log)) {
        ht_raw_close(&log);
        free(path);
        return ht_error_memory(error, logs->folder, "cannot list the logs");
    }
    struct group_log *added = &logs->log[logs->count];
    const char *run = ht_raw_context(&log, "run");
    *added = (struct group_log){.path = path, .header = log.header, .parent = UINT32_MAX};
    snprintf(added->run, sizeof added->run, "%s", run ? run : "");
    if (consumed_log_check(&log, &wrong)) {
        leave_out(wrong.message);
        free(path);
    } else {
        logs->count++;
    }
    ht_raw_close(&log);
    return 0;
}

static int list_logs(struct group_logs *logs, struct ht_error *error) {
    DIR *folder = opendir(logs->folder);
    size_t room = 0;
    int status = folder ? 0 : ht_error_system(error, logs->folder, "cannot read the folder");
    for (const struct dirent *entry; !status && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) || !has_ending(entry->d_name, LOG_ENDING))
            continue;
        char *path = path_in(logs->folder, entry->d_name);
        status = path ? add_log(logs, &room, path, error)
                      : ht_error_memory(error, logs->folder, "cannot list the logs");
    }
    if (folder) closedir(folder);
    return status;
}

// Drops those of other runs. Returns 0, or -1 with error.
static int keep_run(struct group_logs *logs, struct ht_error *error) {
    size_t kept = 0;
    for (size_t i = 0; i < logs->count; i++) {
        const char *run = logs->has_snapshots ? logs->snapshots.run : logs->log[0].run;
        if (!strcmp(run, logs->log[i].run)) {
            struct group_log moved = logs->log[kept];
            logs->log[kept++] = logs->log[i];
            logs->log[i] = moved;
        } else if (!logs->has_snapshots) {
            return ht_error_input(
                error, logs->folder, 0,
                "expected the logs of one run, found those of several: give each a folder of its own");
        }
    }
    for (size_t i = kept; i < logs->count; i++) free(logs->log[i].path);
    logs->count = kept;
    return 0;
}

// ---- who is whose parent ----

static int by_begin(const void *a, const void *b) {
    const struct group_log *left = a, *right = b;
    uint64_t one = left->header.first_pair.mono_ns, other = right->header.first_pair.mono_ns;
    if (one != other) return one > other ? 1 : -1;
    return (left->header.pid > right->header.pid) - (left->header.pid < right->header.pid);
}

static bool is_parent(const struct group_log *parent, const struct group_log *child) {
    struct ht_error ignored;
    return parent->header.pid == child->header.parent_pid &&
           parent->header.sequence == child->header.parent_sequence &&
           !inheritance_check_fork(&child->header, &parent->header, parent->path, &ignored);
}

// They are in the order in which they began: a parent has a lower number.
static void find_parents(struct group_logs *logs) {
    for (size_t i = 0; i < logs->count; i++) {
        struct group_log *log = &logs->log[i];
        if (!log->header.parent_pid) continue;
        for (size_t k = i; k-- > 0 && log->parent == UINT32_MAX;)
            if (is_parent(&logs->log[k], log)) log->parent = (uint32_t)k;
        if (log->parent == UINT32_MAX)
            ht_print(stderr,
                     "heaptape convert: warning: %s: the log of process %" PRIu32
                     ", from which it was forked, "
                     "cannot be used: it is taken as a process that inherited nothing\n",
                     log->path, log->header.parent_pid);
    }
}

static int check_root(const struct group_logs *logs, struct ht_error *error) {
    if (!logs->count)
        return ht_error_input(error, logs->folder, 0,
                              "expected logs of the group (malloc-footprint.PID.mraw), found none");
    if (logs->count > HT_GROUP_PROCESSES_MAX)
        return ht_error_input(error, logs->folder, 0, "expected at most %d processes, found %zu",
                              HT_GROUP_PROCESSES_MAX, logs->count);
    const struct ht_raw_header *root = &logs->log[0].header;
    if (logs->has_snapshots && root->pid != logs->snapshots.root_pid)
        return ht_error_input(error, logs->log[0].path, 24,
                              "expected the log of process %" PRIu32
                              ", which began first, found that of %" PRIu32,
                              logs->snapshots.root_pid, root->pid);
    return 0;
}

int group_logs_find(struct group_logs *logs, const char *path, struct ht_error *error) {
    *logs = (struct group_logs){0};
    if (take_path(logs, path, error) || list_logs(logs, error) || keep_run(logs, error)) return -1;
    if (logs->count) qsort(logs->log, logs->count, sizeof *logs->log, by_begin);
    find_parents(logs);
    return check_root(logs, error);
}

uint32_t group_logs_process(const struct group_logs *logs, const struct ht_group_snapshot *snapshot,
                            const struct ht_group_member *member) {
    for (size_t i = logs->count; i-- > 0;) {
        const struct ht_raw_header *header = &logs->log[i].header;
        if (header->pid == member->pid && header->first_pair.mono_ns <= snapshot->time_ns) return (uint32_t)i;
    }
    return UINT32_MAX;
}

void group_logs_free(struct group_logs *logs) {
    for (size_t i = 0; i < logs->count; i++) free(logs->log[i].path);
    free(logs->log);
    free(logs->folder);
    ht_group_snapshots_free(&logs->snapshots);
    *logs = (struct group_logs){0};
}
