// SPDX-License-Identifier: Apache-2.0
// Which threads of this process could go on: they run, or wait for nothing but a processor. On a machine that
// does other things besides, the real clock does not separate these from those that wait for something.
#ifndef HEAPTAPE_READY_THREADS_H
#define HEAPTAPE_READY_THREADS_H

#include <stdbool.h>
#include <sys/types.h>

// Both are false where /proc cannot be read.
bool ht_thread_is_ready(pid_t tid);
bool ht_another_thread_is_ready(void);

#endif
