// SPDX-License-Identifier: Apache-2.0
// Calls that make the kernel hold our reserved address space against the program: mlockall where little may
// be locked, and a limit on address space that the program sets itself. Most of the reservation is given up
// then, also while nothing is recorded, so that things go as they would have gone without us. What a child of
// vfork locks is its parent's memory, too; its limits are its own.
#include <errno.h>

#include "log_file.h"
#include "sites.h"
#include "wrap.h"

static void give_up_space(uint64_t room) {
    struct recording *recording = recorder_current();
    int saved = errno;
    if (!recording || !epoch_page.maps_log || !recorder_may_call()) return;
    log_shrink_mapping(recording, room);
    sites_give_up_space();
    recorder_has_called();
    errno = saved;
}

static int lock_all(int flags) {
    return real.mlockall ? real.mlockall(flags)
                         : (int)with_errno(raw_syscall(SYS_mlockall, flags, 0, 0, 0, 0, 0));
}

EXPORT int mlockall(int flags) {
    enum { ROOM_BYTES_MIN = 256 << 10, PART = 2, PAUSED_PART = 16 };
    int result = lock_all(flags);
    if (!result || errno != ENOMEM || recorder_sealed) return result;
    // What is locked for a recording that may never begin cannot be the program's.
    uint64_t room = sys_limit(RLIMIT_MEMLOCK) / (epoch_now() == EPOCH_PAUSED ? PAUSED_PART : PART);
    for (; result && room >= ROOM_BYTES_MIN; room /= 2) {
        give_up_space(room);
        result = lock_all(flags);
    }
    return result;
}

// As at the start: a small part of what the program may have. The kernel has accepted the limit, and is asked for
// it: the program's own pointer need not be good any more.
static void heed_limit(pid_t pid) {
    enum { PART = 16 };
    if (recorder_sealed || (pid && (uint32_t)pid != sys_getpid()) || recorder_is_borrowed()) return;
    uint64_t limit = sys_limit(RLIMIT_AS);
    if (limit != RLIM_INFINITY) give_up_space(limit / PART);
}

static int set_limit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old) {
    int result = (int)call_by_number(SYS_prlimit64, pid, resource, (long)limit, (long)old, 0, 0);
    if (!result && resource == RLIMIT_AS && limit) heed_limit(pid);
    return result;
}

long wrap_limit_by_number(long number, long a, long b, long c, long d) {
    if (number == SYS_mlockall) return mlockall((int)a);
    bool of_process = number == SYS_prlimit64;
    long result = call_by_number(number, a, b, c, d, 0, 0);
    if (!result && (int)(of_process ? b : a) == RLIMIT_AS && (of_process ? c : b))
        heed_limit(of_process ? (pid_t)a : 0);
    return result;
}

// By their symbols' names: the headers of C libraries differ in the types, and make macros of the words. On
// 64-bit machines all limits have the same shape.
int wrap_setrlimit(int resource, const struct rlimit *limit) __asm__("setrlimit");
EXPORT int wrap_setrlimit(int resource, const struct rlimit *limit) {
    return set_limit(0, resource, limit, NULL);
}

int wrap_setrlimit64(int resource, const struct rlimit *limit) __asm__("setrlimit64");
EXPORT int wrap_setrlimit64(int resource, const struct rlimit *limit) {
    return set_limit(0, resource, limit, NULL);
}

int wrap_prlimit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old) __asm__("prlimit");
EXPORT int wrap_prlimit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old) {
    return set_limit(pid, resource, limit, old);
}

int wrap_prlimit64(pid_t pid, int resource, const struct rlimit *limit,
                   struct rlimit *old) __asm__("prlimit64");
EXPORT int wrap_prlimit64(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *old) {
    return set_limit(pid, resource, limit, old);
}
