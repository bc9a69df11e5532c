// SPDX-License-Identifier: Apache-2.0
// On which of the processors that a child is shown its threads run: on all, or on those that they chose themselves
// (sched_setaffinity, also by pthread_setaffinity_np). A thread that chose runs on as many processors of this machine as that
// leaves: the shown processor i is number i % n of the n that the child may run on.
#ifndef HEAPTAPE_SHOWN_AFFINITY_H
#define HEAPTAPE_SHOWN_AFFINITY_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ht_chosen_processors;
struct seccomp_notif;
struct seccomp_notif_resp;

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

// Before the child's first call is answered. False, with errno.
bool ht_shown_affinity_begin(struct ht_shown_affinity *affinity, pid_t child);
void ht_shown_affinity_free(struct ht_shown_affinity *affinity);

// What this thread may run on.
void ht_shown_affinity_of(const struct ht_shown_affinity *affinity, pid_t thread, cpu_set_t *set);
// On which one of those it runs.
uint32_t ht_shown_affinity_number(const struct ht_shown_affinity *affinity, pid_t thread);

// Answers sched_getaffinity and sched_setaffinity. False, with errno: they cannot be answered.
bool ht_shown_affinity_get(const struct ht_shown_affinity *affinity, const struct seccomp_notif *asked,
                           struct seccomp_notif_resp *reply);
bool ht_shown_affinity_set(struct ht_shown_affinity *affinity, const struct seccomp_notif *asked,
                           struct seccomp_notif_resp *reply);

#endif
