// SPDX-License-Identifier: Apache-2.0
// Forks for which libc runs no handlers of pthread_atfork: _Fork, and clone without CLONE_VM. A child by clone may also
// share the program's descriptors, though it is no thread.
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "apart.h"
#include "loader.h"
#include "wrap.h"

struct child {
    int (*function)(void *);
    void *argument;
};

// On its copy of the parent's memory, where the struct still is. It may be there on another stack.
static int in_child(void *copy) {
    struct child child = *(const struct child *)copy;
    recorder_in_forked_child();
    return child.function(child.argument);
}

// With or without the three arguments behind these. Not a thread of libc's, which makes those otherwise.
EXPORT int wrap_clone(int (*function)(void *), void *stack, int flags, void *argument, void *parent_tid,
                      void *tls, void *child_tid) __asm__("clone");
int wrap_clone(int (*function)(void *), void *stack, int flags, void *argument, void *parent_tid, void *tls,
               void *child_tid) {
    if (!real.clone) real.clone = symbol_behind_us("clone");
    if (!real.clone) {
        errno = ENOSYS;
        return -1;
    }
    if (flags & CLONE_FILES) apart_shares_descriptors();
    if (wrap_clone_shares_storage((unsigned)flags) && function) recorder_shares_storage();
    // Without a function libc refuses it. A child with thread-local storage of its own may have nothing of ours there.
    if ((flags & (CLONE_VM | CLONE_SETTLS)) || !function)
        return real.clone(function, stack, flags, argument, parent_tid, tls, child_tid);
    struct child child = {function, argument};
    recorder_before_fork();
    int result = real.clone(in_child, stack, flags, &child, parent_tid, tls, child_tid);
    recorder_after_fork();
    return result;
}

// Of glibc 2.34. Which C library will be there is not known: a build for several systems is made with an old one.
EXPORT pid_t wrap_bare_fork(void) __asm__("_Fork");
pid_t wrap_bare_fork(void) {
    if (!real.bare_fork) real.bare_fork = symbol_behind_us("_Fork");
    recorder_before_fork();
    pid_t pid =
        real.bare_fork ? real.bare_fork() : (pid_t)with_errno(raw_syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0));
    if (pid == 0) recorder_in_forked_child();
    else recorder_after_fork();
    return pid;
}
