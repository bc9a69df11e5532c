// SPDX-License-Identifier: Apache-2.0
// CPU time of the threads that are not ours: what an allocator does in the background is not in the replay
// threads' time, and must be known all the same.
#ifndef HEAPTAPE_BACKGROUND_CPU_H
#define HEAPTAPE_BACKGROUND_CPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Sum over the threads of this process for which `ours` says no; their number in *threads.
uint64_t ht_background_cpu_ns(bool (*ours)(void *context, pid_t tid), void *context, uint32_t *threads);

#endif
