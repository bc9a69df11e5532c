// SPDX-License-Identifier: Apache-2.0
#include "syscall_count.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kernel_listener.h"
#include "now.h"

const char *const ht_syscall_names[HT_SYSCALLS] = {"mmap", "munmap", "mremap", "madvise", "brk", "mprotect"};

struct ht_syscall_counter {
    struct ht_kernel_listener listener;
    bool listens;  // has a listener of its own
    uint64_t limit_ns, deadline_ns;
    struct ht_syscall_counts counts;
    bool begun, over_limit;
};

static void count(struct ht_syscall_counts *counts, const struct seccomp_data *call) {
    static const struct {
        int number, length_argument;  // -1: none
    } known[HT_SYSCALLS] = {{SYS_mmap, 1},    {SYS_munmap, 1}, {SYS_mremap, 2},
                            {SYS_madvise, 1}, {SYS_brk, -1},   {SYS_mprotect, 1}};
    for (int i = 0; i < HT_SYSCALLS; i++) {
        if (call->nr != known[i].number) continue;
        counts->calls[i]++;
        if (known[i].length_argument >= 0) counts->bytes[i] += call->args[known[i].length_argument];
    }
}

void ht_syscall_count_begin(struct ht_syscall_counter *counter) {
    counter->begun = true;
    counter->deadline_ns = ht_now_ns(CLOCK_MONOTONIC) + counter->limit_ns;
}

bool ht_syscall_count_take(struct ht_syscall_counter *counter, const struct seccomp_notif *asked) {
    if (!counter->begun) return true;
    count(&counter->counts, &asked->data);
    if (ht_now_ns(CLOCK_MONOTONIC) <= counter->deadline_ns) return true;
    counter->over_limit = true;
    kill((pid_t)asked->pid, SIGKILL);
    return false;
}

static bool answer(void *context, int listener, const struct seccomp_notif *asked,
                   struct seccomp_notif_resp *reply) {
    struct ht_syscall_counter *counter = context;
    (void)listener;
    (void)reply;
    if (!counter->begun) ht_syscall_count_begin(counter);
    return ht_syscall_count_take(counter, asked);
}

// The child's end of the sockets stays open in it, unlike the other.
static bool listen_for(struct ht_syscall_counter *counter, int *child_socket) {
    if (!ht_kernel_listener_start(&counter->listener, answer, counter)) return false;
    *child_socket = dup(counter->listener.sockets[1]);
    if (*child_socket < 0) {
        int problem = errno;
        ht_kernel_listener_stop(&counter->listener);
        errno = problem;
        return false;
    }
    close(counter->listener.sockets[1]);
    counter->listener.sockets[1] = *child_socket;
    return counter->listens = true;
}

struct ht_syscall_counter *ht_syscall_count_start(uint64_t limit_ns, bool listens, int *child_socket,
                                                  char *problem, size_t room) {
    struct ht_syscall_counter *counter = calloc(1, sizeof *counter);
    *child_socket = -1;
    if (counter) counter->limit_ns = limit_ns;
    if (counter && (!listens || listen_for(counter, child_socket))) return counter;
    snprintf(problem, room, "system calls cannot be counted: %s", strerror(errno));
    free(counter);
    return NULL;
}

bool ht_syscall_count_stop(struct ht_syscall_counter *counter, struct ht_syscall_counts *counts,
                           bool *over_limit) {
    bool listened = counter->listens ? ht_kernel_listener_stop(&counter->listener) : counter->begun;
    *counts = counter->counts;
    *over_limit = counter->over_limit;
    bool counted = listened && !counter->over_limit;
    free(counter);
    return counted;
}
