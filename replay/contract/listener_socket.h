// SPDX-License-Identifier: Apache-2.0
// Hands the listener of a seccomp filter from the process that has it to the launcher, which answers.
#ifndef HEAPTAPE_LISTENER_SOCKET_H
#define HEAPTAPE_LISTENER_SOCKET_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

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
