// SPDX-License-Identifier: Apache-2.0
// Notices that the program asks the kernel for, and that what we do could cause or prevent.
//
// After mq_notify no thread of the process may close a message queue unless the program wants it to: not even one with
// descriptors of its own, which begin as copies of the program's. A program that is told of files (inotify) would take our
// opening the log for a change; one that decides who may open them (fanotify) would be waited for, by itself.
#include <errno.h>
#include <sys/syscall.h>

#include "apart.h"
#include "loader.h"
#include "log_file.h"
#include "wrap.h"

void wrap_before_notification(void) {
    if (!recorder_may_call()) return;
    apart_in_processes();
    recorder_has_called();
}

// By its symbol's name: the header may not be there. Where libc has it in a library of its own, that may be
// loaded late.
EXPORT int wrap_mq_notify(int queue, const struct sigevent *event) __asm__("mq_notify");
int wrap_mq_notify(int queue, const struct sigevent *event) {
    if (!real.mq_notify) real.mq_notify = symbol_behind_us("mq_notify");
    if (!real.mq_notify) {
        errno = ENOSYS;
        return -1;
    }
    if (event) wrap_before_notification();
    return real.mq_notify(queue, event);
}

bool wrap_is_watch(long number) {
#ifdef SYS_inotify_init
    if (number == SYS_inotify_init) return true;
#endif
    return number == SYS_inotify_init1 || number == SYS_fanotify_init;
}

void wrap_before_watch(bool is_asked) {
    wrap_begin_while_allowed();
    log_stays_closed(is_asked);
}

// The first call of the process resolves these.
int wrap_inotify_init(void) __asm__("inotify_init");
EXPORT int wrap_inotify_init(void) {
    wrap_before_watch(false);
    return real.inotify_init ? real.inotify_init()
                             : (int)with_errno(raw_syscall(SYS_inotify_init1, 0, 0, 0, 0, 0, 0));
}

int wrap_inotify_init1(int flags) __asm__("inotify_init1");
EXPORT int wrap_inotify_init1(int flags) {
    wrap_before_watch(false);
    return real.inotify_init1 ? real.inotify_init1(flags)
                              : (int)with_errno(raw_syscall(SYS_inotify_init1, flags, 0, 0, 0, 0, 0));
}

int wrap_fanotify_init(unsigned flags, unsigned events) __asm__("fanotify_init");
EXPORT int wrap_fanotify_init(unsigned flags, unsigned events) {
    wrap_before_watch(true);
    return real.fanotify_init ? real.fanotify_init(flags, events)
                              : (int)with_errno(raw_syscall(SYS_fanotify_init, flags, events, 0, 0, 0, 0));
}
