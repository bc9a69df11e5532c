// SPDX-License-Identifier: Apache-2.0
#include "shown_affinity.h"

#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <stdlib.h>

#include "kernel_listener.h"
#include "processor_number.h"

bool ht_shown_affinity_begin(struct ht_shown_affinity *affinity, pid_t child) {
    cpu_set_t there;
    if (affinity->there) return true;
    CPU_ZERO(&there);
    // EINVAL: the machine has more than such a set has room for.
    if (sched_getaffinity(child, sizeof there, &there) && errno != EINVAL) return false;
    affinity->there = calloc(CPU_SETSIZE, sizeof *affinity->there);
    if (!affinity->there) return false;
    for (uint16_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &there)) affinity->there[affinity->there_count++] = i;
    }
    return true;
}

void ht_shown_affinity_free(struct ht_shown_affinity *affinity) {
    free(affinity->there);
    free(affinity->chosen);
}

static struct ht_chosen_set *chosen_by(const struct ht_shown_affinity *affinity, pid_t thread) {
    size_t i = 0;
    while (i < affinity->chosen_count && affinity->chosen[i].thread != thread) i++;
    return i < affinity->chosen_count ? &affinity->chosen[i] : NULL;
}

void ht_shown_affinity_of(const struct ht_shown_affinity *affinity, pid_t thread, cpu_set_t *set) {
    const struct ht_chosen_set *chosen = chosen_by(affinity, thread);
    CPU_ZERO(set);
    for (uint32_t i = 0; i < affinity->shown && !chosen; i++) CPU_SET(i, set);
    if (chosen) *set = chosen->set;
}

static uint32_t one_of(const cpu_set_t *set, pid_t thread) {
    uint32_t which = (uint32_t)thread % (uint32_t)CPU_COUNT(set), i = 0;
    while (!CPU_ISSET(i, set) || which-- > 0) i++;
    return i;
}

uint32_t ht_shown_affinity_number(const struct ht_shown_affinity *affinity, pid_t thread) {
    const struct ht_chosen_set *chosen = chosen_by(affinity, thread);
    return chosen ? one_of(&chosen->set, thread) : ht_processor_number(NULL, thread, affinity->shown);
}

// As the kernel does where so many processors are possible: whole words, of which the caller must have room for all.
bool ht_shown_affinity_get(const struct ht_shown_affinity *affinity, const struct seccomp_notif *asked,
                           struct seccomp_notif_resp *reply) {
    pid_t thread = (pid_t)asked->data.args[0];
    uint64_t room = (uint32_t)asked->data.args[1];
    size_t bytes = (affinity->shown + 63) / 64 * sizeof(uint64_t);
    cpu_set_t set;
    if (room * CHAR_BIT < affinity->shown || room % sizeof(long)) {
        ht_answer_error(reply, EINVAL);
        return true;
    }
    if (thread && sched_getaffinity(thread, sizeof set, &set)) {
        ht_answer_error(reply, errno);
        return true;
    }
    ht_shown_affinity_of(affinity, thread ? thread : (pid_t)asked->pid, &set);
    if (bytes > room) bytes = room;
    if (ht_asked_write(asked, asked->data.args[2], &set, bytes)) ht_answer_value(reply, (int64_t)bytes);
    else if (errno == EFAULT) ht_answer_error(reply, EFAULT);
    else return false;
    return true;
}

static bool keep(struct ht_shown_affinity *affinity, pid_t thread, const cpu_set_t *set) {
    struct ht_chosen_set *chosen = chosen_by(affinity, thread);
    if (!chosen && affinity->chosen_count == affinity->chosen_room) {
        size_t room = affinity->chosen_room ? 2 * affinity->chosen_room : 16;
        chosen = realloc(affinity->chosen, room * sizeof *chosen);
        if (!chosen) return false;
        affinity->chosen = chosen;
        affinity->chosen_room = room;
        chosen = NULL;
    }
    if (!chosen) chosen = &affinity->chosen[affinity->chosen_count++];
    *chosen = (struct ht_chosen_set){thread, *set};
    return true;
}

// For what asks no kernel.
static void tell_child(struct ht_chosen_processors *numbers, pid_t thread, uint32_t number) {
    uint32_t place = ht_chosen_place(numbers, thread);
    bool known = numbers->places[place].thread == (uint32_t)thread;
    if (!known && numbers->count >= HT_CHOSEN_PLACES / 2) return;
    numbers->places[place].number = number;
    numbers->places[place].thread = (uint32_t)thread;
    numbers->count += !known;
}

bool ht_shown_affinity_set(struct ht_shown_affinity *affinity, const struct seccomp_notif *asked,
                           struct seccomp_notif_resp *reply) {
    pid_t thread = asked->data.args[0] ? (pid_t)asked->data.args[0] : (pid_t)asked->pid;
    uint64_t bytes = (uint32_t)asked->data.args[1];
    cpu_set_t wanted, shown, there;
    CPU_ZERO(&wanted);
    CPU_ZERO(&shown);
    CPU_ZERO(&there);
    if (bytes > sizeof wanted) bytes = sizeof wanted;
    if (bytes && ht_asked_read(asked, asked->data.args[2], &wanted, bytes) != (ptrdiff_t)bytes) {
        ht_answer_error(reply, EFAULT);
        return true;
    }
    for (uint32_t i = 0; i < affinity->shown; i++) {
        if (!CPU_ISSET(i, &wanted)) continue;
        CPU_SET(i, &shown);
        if (affinity->there_count) CPU_SET(affinity->there[i % affinity->there_count], &there);
    }
    // The kernel refuses to run it on none, as it would there.
    bool unmapped = !affinity->there_count && CPU_COUNT(&shown);
    if (!unmapped && sched_setaffinity(thread, sizeof there, &there)) {
        ht_answer_error(reply, errno);
        return true;
    }
    if (!keep(affinity, thread, &shown)) return false;
    tell_child(affinity->numbers, thread, one_of(&shown, thread));
    ht_answer_value(reply, 0);
    return true;
}
