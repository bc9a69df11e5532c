// SPDX-License-Identifier: Apache-2.0
// What the kernel and the processor count of this process: events, CPU time of background threads, and system calls.
#ifndef HEAPTAPE_PERF_COUNTERS_H
#define HEAPTAPE_PERF_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "child_figures.h"

// Counters of the kernel and the processor over what all threads of this process do.
struct ht_perf_counters {
    int fds[HT_PERF_EVENTS];  // -1: none
    struct ht_perf_count *counts;
};

// Opens what is permitted, before there are threads: they inherit it.
void ht_perf_open(struct ht_perf_counters *counters, struct ht_perf_count *counts);
// What is done between begin and pause is counted, each time.
void ht_perf_begin(struct ht_perf_counters *counters);
void ht_perf_pause(struct ht_perf_counters *counters);
void ht_perf_end(struct ht_perf_counters *counters);  // fills counts

// CPU time of the threads that are not ours: what an allocator does in the background is not in the replay
// threads' time, and must be known all the same.

// Sum over the threads of this process for which `ours` says no; their number in *threads.
uint64_t ht_background_cpu_ns(bool (*ours)(void *context, pid_t tid), void *context, uint32_t *threads);

// Has the kernel report to the launcher each system call by which an allocator gets, changes or gives back
// memory (kernel_listener.h). The others run at full speed.

// From now on, for this process and its threads to be, for good. socket_fd: where the listener is sent to.
// Returns 0, or errno where the kernel does not permit it; then nothing is counted and nothing changed.
int ht_syscall_filter_install(int socket_fd);

#endif
