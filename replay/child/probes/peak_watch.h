// SPDX-License-Identifier: Apache-2.0
// Peaks of RSS within calls. RSS falls only in the system calls by which memory is given back, so it is read just before each
// of them: a realloc that copies has both blocks then. The kernel stops these calls for it (a seccomp filter whose answer is
// SIGSYS), and the handler makes them after the reading.
#ifndef HEAPTAPE_PEAK_WATCH_H
#define HEAPTAPE_PEAK_WATCH_H

#include <stddef.h>
#include <stdint.h>

// From now on, for this thread and those that it starts, for good. statm_fd: of ht_rss_open. stack: of this thread's handler,
// at least HT_PEAK_WATCH_STACK_BYTES that are nobody's heap; other threads' handlers run on their own stacks. Returns 0, or
// errno where it cannot be had: then nothing is changed.
enum { HT_PEAK_WATCH_STACK_BYTES = 64 << 10 };
int ht_peak_watch_start(int statm_fd, void *stack);

// Reads RSS as if memory were about to be given back.
void ht_peak_watch_read(void);

// The highest reading since the last call of this, or `bytes` if that is more, by whichever thread.
uint64_t ht_peak_watch_take(uint64_t bytes);

#endif
