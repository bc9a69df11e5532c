// SPDX-License-Identifier: Apache-2.0
// Waits for a measured child, and ends it where nothing else would.
#ifndef HEAPTAPE_CHILD_WATCH_H
#define HEAPTAPE_CHILD_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ht_child_watch {
    uint64_t timeout_ns;    // a child that runs longer is killed; 0: none is
    uint64_t deadline_ns;   // likewise one that runs then, by the monotonic clock
    uint32_t idle_seconds;  // a child that takes no CPU time for so long hangs; 0: a minute
    bool may_idle;          // it is all right
    // Called several times a second; NULL if nobody wants to know.
    void (*waiting)(void *context, double seconds);
    void *context;
    bool *hung, *cut_short;  // become true if the child is killed because it hangs, or by the deadline
};

// Waits until the child has ended. Returns true if it ended by itself; false, with problem, if it was killed
// here.
bool ht_child_await(pid_t child, const struct ht_child_watch *watch, int *status, char *problem, size_t room);

#endif
