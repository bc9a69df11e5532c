// SPDX-License-Identifier: Apache-2.0
// Shows a measured child another number of processors than there are: whatever it asks the kernel, from its first
// instruction on, also within the C library, is answered here. What never asks the kernel is answered in the child
// (processor_number.c).
#ifndef HEAPTAPE_SHOWN_PROCESSORS_H
#define HEAPTAPE_SHOWN_PROCESSORS_H

#include <stdint.h>
#include <sys/types.h>

#include "kernel_listener.h"
#include "shown_affinity.h"

struct ht_syscall_counter;

struct ht_shown_processors {
    struct ht_kernel_listener listener;
    struct ht_shown_affinity affinity;
    struct ht_syscall_counter *counter;  // of the calls that change the address space; NULL: none
    bool asked;                          // the child asked for the number
    const char *problem;                 // why an answer could not be given, NULL: all were
    int problem_errno;
};

// chosen: memory that the child shares. False, with errno, without a thread.
bool ht_shown_processors_start(struct ht_shown_processors *shown, uint32_t count,
                               struct ht_chosen_processors *chosen, struct ht_syscall_counter *counter);
// The child has ended.
void ht_shown_processors_stop(struct ht_shown_processors *shown);

// Has the calling process run on at most so many of the processors that it may run on.
void ht_processors_restrict(uint32_t count);

#endif
