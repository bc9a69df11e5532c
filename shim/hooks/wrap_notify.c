// mq_notify, after which no thread of the process may close a message queue unless the program wants it to: not
// even one with descriptors of its own, which begin as copies of the program's.
#include <errno.h>

#include "apart.h"
#include "wrap.h"

struct sigevent;

void wrap_before_notification(void) {
    if (!recorder_may_call()) return;
    apart_in_processes();
    recorder_has_called();
}

// By its symbol's name: the header may not be there. Where libc has it in a library of its own, that may be
// loaded late.
EXPORT int wrap_mq_notify(int queue, const struct sigevent *event) __asm__("mq_notify");
int wrap_mq_notify(int queue, const struct sigevent *event) {
    static int (*_Atomic behind)(int, const struct sigevent *);
    if (!behind) behind = (int (*)(int, const struct sigevent *))symbol_behind_us("mq_notify");
    if (!behind) {
        errno = ENOSYS;
        return -1;
    }
    if (event) wrap_before_notification();
    return behind(queue, event);
}
