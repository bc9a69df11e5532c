// SPDX-License-Identifier: Apache-2.0
// The words of the seccomp filters by which the kernel tells of system calls: of those that the child counts, and of those that
// ask for processors (--cpus). A process can have one listener only, so that one filter serves both where both are asked for.
#ifndef HEAPTAPE_CALL_FILTER_H
#define HEAPTAPE_CALL_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined __x86_64__
#define HT_FILTER_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define HT_FILTER_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define HT_FILTER_ARCHITECTURE 0
#endif

#define HT_FILTER_LOAD(field)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define HT_FILTER_IF(value, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), 0)
#define HT_FILTER_ANSWER(action)  BPF_STMT(BPF_RET | BPF_K, (action))

// Begins a filter: calls of another architecture pass.
#define HT_FILTER_BEGINS                                                                                     \
    HT_FILTER_LOAD(arch), HT_FILTER_IF(HT_FILTER_ARCHITECTURE, 1), HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),      \
        HT_FILTER_LOAD(nr)

// Ends a filter: calls that map memory are told of, all others pass. Shared mappings are the harness's own: the stacks of
// replay threads. The last of its HT_FILTER_MEMORY_WORDS words tells of a call.
#define HT_FILTER_MEMORY                                                                                     \
    HT_FILTER_IF(SYS_mmap, 6), HT_FILTER_IF(SYS_munmap, 8), HT_FILTER_IF(SYS_mremap, 7),                     \
        HT_FILTER_IF(SYS_madvise, 6), HT_FILTER_IF(SYS_brk, 5), HT_FILTER_IF(SYS_mprotect, 4),               \
        HT_FILTER_ANSWER(SECCOMP_RET_ALLOW), HT_FILTER_LOAD(args[3]),                                        \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1), HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),         \
        HT_FILTER_ANSWER(SECCOMP_RET_USER_NOTIF)
enum { HT_FILTER_MEMORY_WORDS = 11 };

// Hands the listener of a seccomp filter from the process that has it to the launcher, which answers.

union ht_listener_control {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
};

static inline bool ht_listener_send(int socket_fd, int fd) {
    char byte = 0;
    union ht_listener_control control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    passed->cmsg_level = SOL_SOCKET;
    passed->cmsg_type = SCM_RIGHTS;
    passed->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(passed), &fd, sizeof fd);
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL) == 1;
}

// Waits for the listener; -1 if none comes.
static inline int ht_listener_receive(int socket_fd) {
    char byte;
    int fd = -1;
    union ht_listener_control control;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
    struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    if (passed && passed->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(passed), sizeof fd);
    return fd;
}

#endif
