// SPDX-License-Identifier: Apache-2.0
// Looks at all processes of a replayed group at one moment, while none of them runs.
#ifndef HEAPTAPE_GROUP_MEETINGS_H
#define HEAPTAPE_GROUP_MEETINGS_H

#include <pthread.h>
#include <stdatomic.h>

#include "group_program.h"

// The memory of a process, or of all: in the sum of Pss_Anon each page counts once.
struct ht_group_look {
    uint64_t pss_anon_bytes, rss_anon_bytes;
};

struct ht_group_watch {
    const struct ht_group_program *program;
    struct ht_group_plan *plan;
    // By meeting; added to what is there, as one family after the other is replayed.
    struct ht_group_look *meeting;
    struct ht_group_look *part;  // by part and moment (once written), likewise
    char problem[512];           // empty: none
    // The rest is of the thread that looks.
    pthread_t thread;
    _Atomic bool ended;  // the root has: nothing more will come
};

// False with errno if there can be no thread.
bool ht_group_watch_start(struct ht_group_watch *watch);
// The root has ended. False, with a problem, where the group could not be looked at to its end.
bool ht_group_watch_stop(struct ht_group_watch *watch);

#endif
