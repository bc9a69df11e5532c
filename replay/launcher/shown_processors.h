// SPDX-License-Identifier: Apache-2.0
// Shows a measured child another number of processors than there are: whatever it asks the kernel, from its first
// instruction on, also within the C library, is answered here. What never asks the kernel is answered in the child
// (processors_asked.c).
#ifndef HEAPTAPE_SHOWN_PROCESSORS_H
#define HEAPTAPE_SHOWN_PROCESSORS_H

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel_listener.h"

struct ht_chosen_processors;
struct seccomp_notif;
struct seccomp_notif_resp;

// The processors that the threads of a child run on, of those that it is shown: all, or those that they chose themselves
// (sched_setaffinity, also by pthread_setaffinity_np). A thread that chose runs on as many processors of this machine as that
// leaves: the shown processor i is number i % n of the n that the child may run on.
struct ht_shown_affinity {
    uint32_t shown;   // how many
    uint16_t *there;  // those of this machine that the child may run on, NULL before the first call
    uint32_t there_count;
    struct ht_chosen_set {
        pid_t thread;
        cpu_set_t set;
    } *chosen;  // by the last thread of this number: numbers come again only after all others
    size_t chosen_count, chosen_room;
    struct ht_chosen_processors *numbers;  // for the child
};

// Between fork and exec: filters this process and all that it becomes, and sends the listener through the socket.
// memory: calls that change the address space go to the launcher, too. False with errno.
bool ht_processor_filter_install(int socket_fd, bool memory);

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
