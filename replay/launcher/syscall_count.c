#include "syscall_count.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "now.h"

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif

// The kernel's structures may be longer than ours (SECCOMP_GET_NOTIF_SIZES); it fills what it knows of.
enum { POLL_MS = 50, STRUCTURE_BYTES_MAX = 1024, STACK_BYTES = 256 << 10 };

const char *const ht_syscall_names[HT_SYSCALLS] = {"mmap", "munmap", "mremap", "madvise", "brk", "mprotect"};

struct ht_syscall_counter {
    pthread_t thread;
    int sockets[2];  // ours, the child's
    uint64_t limit_ns;
    _Atomic bool ended;  // the child has
    struct ht_syscall_counts counts;
    bool listened, over_limit;
};

// Waits for the listener; -1 if none comes.
static int receive_listener(int socket_fd) {
    char byte;
    int fd = -1;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof fd)];
    } control;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    if (passed && passed->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(passed), sizeof fd);
    return fd;
}

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

// One call that a thread of the child waits with. False: there will be no more.
static bool answer(struct ht_syscall_counter *counter, int listener, uint64_t deadline_ns) {
    union {
        struct seccomp_notif call;
        char room[STRUCTURE_BYTES_MAX];
    } asked = {0};
    union {
        struct seccomp_notif_resp answer;
        char room[STRUCTURE_BYTES_MAX];
    } reply = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) return errno == ENOENT || errno == EINTR;
    count(&counter->counts, &asked.call.data);
    if (ht_now_ns(CLOCK_MONOTONIC) > deadline_ns) {
        counter->over_limit = true;
        kill((pid_t)asked.call.pid, SIGKILL);
        return false;
    }
    reply.answer.id = asked.call.id;
    reply.answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply) == 0 || errno == ENOENT;
}

static void *run(void *argument) {
    struct ht_syscall_counter *counter = argument;
    int listener = receive_listener(counter->sockets[0]);
    if (listener < 0) return NULL;
    counter->listened = true;
    uint64_t deadline_ns = ht_now_ns(CLOCK_MONOTONIC) + counter->limit_ns;
    for (;;) {
        struct pollfd waiting = {.fd = listener, .events = POLLIN};
        int ready = poll(&waiting, 1, POLL_MS);
        // Before Linux 5.9 a listener does not report that nobody is left.
        if (ready == 0 && atomic_load(&counter->ended)) break;
        if (ready <= 0) continue;
        if (!(waiting.revents & POLLIN) || !answer(counter, listener, deadline_ns)) break;
    }
    close(listener);
    return NULL;
}

// A small stack, because address space may be limited.
static bool start_thread(struct ht_syscall_counter *counter) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) return false;
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    bool started = pthread_create(&counter->thread, &attributes, run, counter) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

struct ht_syscall_counter *ht_syscall_count_start(uint64_t limit_ns, int *child_socket, char *problem,
                                                  size_t room) {
    struct ht_syscall_counter *counter = calloc(1, sizeof *counter);
    if (counter && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, counter->sockets) == 0) {
        counter->limit_ns = limit_ns;
        *child_socket = dup(counter->sockets[1]);  // open in the child, unlike the other
        if (*child_socket >= 0 && start_thread(counter)) {
            close(counter->sockets[1]);
            counter->sockets[1] = *child_socket;
            return counter;
        }
        close(counter->sockets[0]);
        close(counter->sockets[1]);
        if (*child_socket >= 0) close(*child_socket);
    }
    free(counter);
    snprintf(problem, room, "system calls can't be counted: %s", strerror(errno));
    return NULL;
}

bool ht_syscall_count_stop(struct ht_syscall_counter *counter, struct ht_syscall_counts *counts,
                           bool *over_limit) {
    atomic_store(&counter->ended, true);
    shutdown(counter->sockets[0], SHUT_RDWR);
    pthread_join(counter->thread, NULL);
    close(counter->sockets[0]);
    close(counter->sockets[1]);
    *counts = counter->counts;
    *over_limit = counter->over_limit;
    bool counted = counter->listened && !counter->over_limit;
    free(counter);
    return counted;
}
