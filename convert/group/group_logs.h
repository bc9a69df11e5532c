// SPDX-License-Identifier: Apache-2.0
// The logs of one run in a folder, and which process was forked from which.
#ifndef HEAPTAPE_GROUP_LOGS_H
#define HEAPTAPE_GROUP_LOGS_H

#include "group_snapshot.h"
#include "raw_reader.h"

// A process as its log's header shows it.
struct group_log {
    char *path;
    struct ht_raw_header header;
    char run[33];
    uint32_t parent;  // its number; UINT32_MAX: it has none, or none whose log is of use
};

struct group_logs {
    char *folder;
    struct ht_group_snapshots snapshots;  // none where there is no file of them
    bool has_snapshots;
    struct group_log *log;  // the root first, each parent before its children
    size_t count;
};

// path: the folder, or the file of snapshots in it. Warns of logs that are left out. Returns 0, or -1 with error; to be freed in
// any case.
int group_logs_find(struct group_logs *logs, const char *path, struct ht_error *error);
// The log that was written by the process that the snapshot shows: its number, or UINT32_MAX.
uint32_t group_logs_process(const struct group_logs *logs, const struct ht_group_snapshot *snapshot,
                            const struct ht_group_member *member);
void group_logs_free(struct group_logs *logs);

#endif
