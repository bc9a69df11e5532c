// SPDX-License-Identifier: Apache-2.0
#include "kernel_listener.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "call_filter.h"
#include "now.h"

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif

// The kernel's structures may be longer than ours (SECCOMP_GET_NOTIF_SIZES); it fills what it knows of.
enum { POLL_MS = 50, STRUCTURE_BYTES_MAX = 1024, STACK_BYTES = 256 << 10, PAGE_BYTES_LEAST = 4096 };

// One call that a thread of the child waits with. False: there will be no more.
static bool answer_one(struct ht_kernel_listener *listener, int listener_fd) {
    union {
        struct seccomp_notif call;
        char room[STRUCTURE_BYTES_MAX];
    } asked = {0};
    union {
        struct seccomp_notif_resp answer;
        char room[STRUCTURE_BYTES_MAX];
    } reply = {0};
    if (ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_RECV, &asked)) return errno == ENOENT || errno == EINTR;
    reply.answer.id = asked.call.id;
    reply.answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (!listener->answer(listener->context, listener_fd, &asked.call, &reply.answer)) return false;
    return ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_SEND, &reply) == 0 || errno == ENOENT;
}

static void *run(void *argument) {
    struct ht_kernel_listener *listener = argument;
    int listener_fd = ht_listener_receive(listener->sockets[0]);
    if (listener_fd < 0) return NULL;
    listener->listened = true;
    for (;;) {
        struct pollfd waiting = {.fd = listener_fd, .events = POLLIN};
        int ready = poll(&waiting, 1, POLL_MS);
        // Before Linux 5.9 a listener does not report that nobody is left.
        if (ready == 0 && atomic_load(&listener->ended)) break;
        if (ready <= 0) continue;
        if (!(waiting.revents & POLLIN) || !answer_one(listener, listener_fd)) break;
    }
    close(listener_fd);
    return NULL;
}

// A small stack, because address space may be limited.
static bool start_thread(struct ht_kernel_listener *listener) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int problem = pthread_create(&listener->thread, &attributes, run, listener);
    pthread_attr_destroy(&attributes);
    errno = problem;
    return problem == 0;
}

bool ht_kernel_listener_start(struct ht_kernel_listener *listener, ht_answer_call *answer, void *context) {
    *listener = (struct ht_kernel_listener){.answer = answer, .context = context};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, listener->sockets)) return false;
    if (start_thread(listener)) return true;
    int problem = errno;
    close(listener->sockets[0]);
    close(listener->sockets[1]);
    errno = problem;
    return false;
}

bool ht_kernel_listener_stop(struct ht_kernel_listener *listener) {
    atomic_store(&listener->ended, true);
    shutdown(listener->sockets[0], SHUT_RDWR);
    pthread_join(listener->thread, NULL);
    close(listener->sockets[0]);
    close(listener->sockets[1]);
    return listener->listened;
}

// A part for each page: a part that is not all there is not read at all.
ptrdiff_t ht_asked_read(const struct seccomp_notif *asked, uint64_t address, void *bytes, size_t count) {
    size_t in_page = PAGE_BYTES_LEAST - address % PAGE_BYTES_LEAST;
    if (in_page > count) in_page = count;
    struct iovec here = {bytes, count}, there[] = {{(void *)(uintptr_t)address, in_page},
                                                   {(void *)(uintptr_t)(address + in_page), count - in_page}};
    return process_vm_readv((pid_t)asked->pid, &here, 1, there, in_page < count ? 2 : 1, 0);
}

bool ht_asked_write(const struct seccomp_notif *asked, uint64_t address, const void *bytes, size_t count) {
    struct iovec here = {(void *)bytes, count}, there = {(void *)(uintptr_t)address, count};
    return process_vm_writev((pid_t)asked->pid, &here, 1, &there, 1, 0) == (ssize_t)count;
}

void ht_answer_error(struct seccomp_notif_resp *answer, int number) {
    answer->flags = 0;
    answer->error = -number;
}

void ht_answer_value(struct seccomp_notif_resp *answer, int64_t value) {
    answer->flags = 0;
    answer->val = value;
}

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
