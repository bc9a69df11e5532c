// SPDX-License-Identifier: Apache-2.0
// While a run goes on, looks from outside at the program and at the processes that it forks, and keeps two snapshots of their
// pages in a file beside the logs (docs/reference/group-format.md, "Snapshots").
#ifndef HEAPTAPE_GROUP_WATCH_H
#define HEAPTAPE_GROUP_WATCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "group_look.h"

// Its owner may look at it once the watch has been left.
struct group_watch {
    // As wanted.
    bool from_start;  // else once a forked child stays
    const char *directory, *id;
    // As found.
    struct ht_group_snapshot snapshot[HT_SNAPSHOT_REASONS];  // without processes: none
    struct ht_group_snapshot former[HT_SNAPSHOT_REASONS];    // whose place they have taken
    bool is_group;  // one of these has a process that shares pages with its parent; then there is a file
    struct group_hidden hidden;
    char path[4096];
    // Its own.
    pid_t root;
    struct group_tree tree;
    struct tree_process image;  // the root as it was at the last look
    pthread_t thread;
    bool has_thread, looks, changed, write_failed;
    int wake;
    atomic_bool stop;
    atomic_int state;   // enum group_watch_state, or the signal that is to be passed on
    atomic_bool quick;  // the last look at pages took so little time that a signal may wait for one
    uint64_t highest_bytes, shrunk_ns, complete_ns, written_ns;  // complete: when it was seen so last
    _Atomic uint64_t
        ending_until_ns;  // a signal has asked the program to end: nothing is looked at until then
    uint64_t looks_cpu_ns, pages_cpu_ns;
};

// Once the program runs; from its own thread. Nothing happens where it cannot.
void group_watch_begin(struct group_watch *watch, pid_t root);
// In a handler of signals: true if the watch will pass the signal on, in some milliseconds, when it has looked once more.
bool group_watch_passes(struct group_watch *watch, int number);
// When the program has ended.
void group_watch_leave(struct group_watch *watch);
void group_watch_free(struct group_watch *watch);

#endif
