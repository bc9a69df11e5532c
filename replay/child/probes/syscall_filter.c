// SPDX-License-Identifier: Apache-2.0
#include "syscall_filter.h"

#include <errno.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "call_filter.h"
#include "listener_socket.h"

#define TSYNC_ESRCH (1UL << 4)  // SECCOMP_FILTER_FLAG_TSYNC_ESRCH, which older headers lack

static struct sock_filter program[] = {HT_FILTER_BEGINS, HT_FILTER_MEMORY};

int ht_syscall_filter_install(int socket_fd) {
    const struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (!HT_FILTER_ARCHITECTURE) return ENOSYS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    // Threads that the allocator has already are to be counted too; before Linux 5.7 only new ones can be.
    const long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER, all = SECCOMP_FILTER_FLAG_TSYNC | TSYNC_ESRCH;
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | all, &filter);
    if (listener < 0 && errno == EINVAL) {
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    }
    if (listener < 0) return errno;
    if (!ht_listener_send(socket_fd, listener)) _exit(1);  // nobody would ever answer
    close(listener);
    return 0;
}
