// Notices that the program asks the kernel for, and that what we do could cause or prevent.
//
// After mq_notify no thread of the process may close a message queue unless the program wants it to: not even one with
// descriptors of its own, which begin as copies of the program's. A program that is told of files (inotify) would take our
// opening the log for a change; one that decides who may open them (fanotify) would be waited for, by itself.
#include <errno.h>
#include <sys/syscall.h>

#include "apart.h"
#include "log_file.h"
#include "wrap.h"

struct sigevent;

void wrap_before_notification(void) {
    if (!recorder_may_call()) return;
    apart_in_processes();
    recorder_has_called();
}

static void *behind_us(void *_Atomic *known, const char *name) {
    if (!*known) *known = symbol_behind_us(name);
    return *known;
}

// By its symbol's name: the header may not be there. Where libc has it in a library of its own, that may be
// loaded late.
EXPORT int wrap_mq_notify(int queue, const struct sigevent *event) __asm__("mq_notify");
int wrap_mq_notify(int queue, const struct sigevent *event) {
    static void *_Atomic known;
    int (*behind)(int, const struct sigevent *) =
        (int (*)(int, const struct sigevent *))behind_us(&known, "mq_notify");
    if (!behind) {
        errno = ENOSYS;
        return -1;
    }
    if (event) wrap_before_notification();
    return behind(queue, event);
}

bool wrap_is_watch(long number) {
#ifdef SYS_inotify_init
    if (number == SYS_inotify_init) return true;
#endif
    return number == SYS_inotify_init1 || number == SYS_fanotify_init;
}

int wrap_inotify_init(void) __asm__("inotify_init");
EXPORT int wrap_inotify_init(void) {
    static void *_Atomic known;
    int (*behind)(void) = (int (*)(void))behind_us(&known, "inotify_init");
    log_stays_closed(false);
    return behind ? behind() : (int)with_errno(raw_syscall(SYS_inotify_init1, 0, 0, 0, 0, 0, 0));
}

int wrap_inotify_init1(int flags) __asm__("inotify_init1");
EXPORT int wrap_inotify_init1(int flags) {
    static void *_Atomic known;
    int (*behind)(int) = (int (*)(int))behind_us(&known, "inotify_init1");
    log_stays_closed(false);
    return behind ? behind(flags) : (int)with_errno(raw_syscall(SYS_inotify_init1, flags, 0, 0, 0, 0, 0));
}

int wrap_fanotify_init(unsigned flags, unsigned events) __asm__("fanotify_init");
EXPORT int wrap_fanotify_init(unsigned flags, unsigned events) {
    static void *_Atomic known;
    int (*behind)(unsigned, unsigned) = (int (*)(unsigned, unsigned))behind_us(&known, "fanotify_init");
    log_stays_closed(true);
    return behind ? behind(flags, events)
                  : (int)with_errno(raw_syscall(SYS_fanotify_init, flags, events, 0, 0, 0, 0));
}
