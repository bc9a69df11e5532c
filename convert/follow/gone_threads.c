// SPDX-License-Identifier: Apache-2.0
#include "gone_threads.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "grow.h"
#include "raw_in_use.h"

// A poll that began after the thread had gone sees all; what it saw counts at the next one.
enum { POLLS_AFTER = 3 };

struct thread_ids {
    uint32_t *id;
    size_t count, room;
};

static bool add(struct thread_ids *ids, uint32_t id) {
    if (!ht_grow(&ids->id, &ids->room, ids->count + 1, sizeof *ids->id)) return false;
    ids->id[ids->count++] = id;
    return true;
}

static int by_id(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

// The process's threads. False if they cannot be known.
static bool list_threads(uint32_t pid, struct thread_ids *ids) {
    char path[64];
    struct dirent *entry;
    bool whole = true;
    snprintf(path, sizeof path, "/proc/%u/task", pid);
    DIR *folder = opendir(path);
    if (!folder) return false;
    while (whole && (entry = readdir(folder))) {
        unsigned long id = strtoul(entry->d_name, NULL, 10);
        if (id) whole = add(ids, (uint32_t)id);
    }
    closedir(folder);
    if (ids->count) qsort(ids->id, ids->count, sizeof *ids->id, by_id);
    return whole && ids->count > 0;
}

// A listing may pass over living threads while others end: each that it lacks is asked for by itself. All of
// /proc is asked, so that one that shares its memory without being a thread of the process counts as well.
static bool is_gone(uint32_t tid, const struct thread_ids *ids) {
    char path[64];
    if (bsearch(&tid, ids->id, ids->count, sizeof *ids->id, by_id)) return false;
    snprintf(path, sizeof path, "/proc/%u", tid);
    return access(path, F_OK) && errno == ENOENT;
}

void gone_threads_note(struct live_streams *live) {
    struct thread_ids ids = {0};
    // Process and thread ids are those of the program's namespace: only where it is ours do they mean
    // anything.
    if (ht_raw_is_mapped(live->log) && list_threads(live->log->header.pid, &ids)) {
        for (size_t i = 0; i < live->streams->count; i++) {
            uint32_t tid = live->streams->stream[i].tid;
            struct live_stream *known = &live->stream[i];
            if (!known->known || known->over || known->polls_left || !tid) continue;
            if (is_gone(tid, &ids)) known->polls_left = POLLS_AFTER;
        }
    }
    free(ids.id);
}

bool gone_threads_confirm(struct live_streams *live, uint32_t number) {
    struct live_stream *known = &live->stream[number];
    return known->polls_left > 0 && known->seen_bytes == 0 && --known->polls_left == 0;
}
