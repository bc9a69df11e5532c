#include "kernel_listener.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listener_socket.h"

#ifndef SECCOMP_USER_NOTIF_FLAG_CONTINUE
#define SECCOMP_USER_NOTIF_FLAG_CONTINUE 1
#endif

// The kernel's structures may be longer than ours (SECCOMP_GET_NOTIF_SIZES); it fills what it knows of.
enum { POLL_MS = 50, STRUCTURE_BYTES_MAX = 1024, STACK_BYTES = 256 << 10 };

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
