// SPDX-License-Identifier: Apache-2.0
#include "processor_filter.h"

#include <errno.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "call_filter.h"
#include "listener_socket.h"
#include "older_libc.h"

#ifdef SYS_open
#define OLD_OPEN SYS_open
#else
#define OLD_OPEN SYS_openat
#endif

// `beyond`: words between the last of these and the one that tells of a call.
#define OF_PROCESSORS(beyond)                                                                                \
    HT_FILTER_IF(SYS_openat, 5 + (beyond)), HT_FILTER_IF(OLD_OPEN, 4 + (beyond)),                            \
        HT_FILTER_IF(SYS_openat2, 3 + (beyond)), HT_FILTER_IF(SYS_sched_getaffinity, 2 + (beyond)),          \
        HT_FILTER_IF(SYS_sched_setaffinity, 1 + (beyond)), HT_FILTER_IF(SYS_getcpu, (beyond))

static struct sock_filter of_processors[] = {
    HT_FILTER_BEGINS,
    OF_PROCESSORS(1),
    HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),
    HT_FILTER_ANSWER(SECCOMP_RET_USER_NOTIF),
};

static struct sock_filter of_processors_and_memory[] = {
    HT_FILTER_BEGINS,
    OF_PROCESSORS(HT_FILTER_MEMORY_WORDS - 1),
    HT_FILTER_MEMORY,
};

bool ht_processor_filter_install(int socket_fd, bool memory) {
    const struct sock_fprog plain = {sizeof of_processors / sizeof *of_processors, of_processors},
                            both = {sizeof of_processors_and_memory / sizeof *of_processors_and_memory,
                                    of_processors_and_memory};
    errno = ENOSYS;
    if (!HT_FILTER_ARCHITECTURE || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                            memory ? &both : &plain);
    if (listener < 0) return false;
    if (!ht_listener_send(socket_fd, (int)listener)) _exit(1);  // nobody would ever answer
    close((int)listener);
    return true;
}
