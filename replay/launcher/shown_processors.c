// SPDX-License-Identifier: Apache-2.0
#include "shown_processors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child_path.h"
#include "older_libc.h"
#include "processor_files.h"
#include "processor_number.h"
#include "syscall_count.h"

// Linux 5.9; older headers lack it.
struct added_fd {
    uint64_t id;
    uint32_t flags, source_fd, new_fd, new_fd_flags;
};
#define ADD_FD SECCOMP_IOW(3, struct added_fd)

static bool fail(struct ht_shown_processors *shown, const char *problem) {
    shown->problem_errno = errno;
    shown->problem = problem;
    return false;
}

static bool still_waits(int listener, const struct seccomp_notif *asked) {
    uint64_t id = asked->id;
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static bool answer_affinity(struct ht_shown_processors *shown, const struct seccomp_notif *asked,
                            struct seccomp_notif_resp *reply) {
    uint64_t room = asked->data.args[1];
    if (room == HT_BEGIN_COUNTING && !asked->data.args[2]) {
        if (shown->counter) ht_syscall_count_begin(shown->counter);
        ht_answer_error(reply, EINVAL);
        return true;
    }
    if (room == HT_TRUE_AFFINITY) return true;
    shown->asked = true;
    return ht_shown_affinity_get(&shown->affinity, asked, reply) ||
           fail(shown, "its memory cannot be written");
}

static bool answer_number(struct ht_shown_processors *shown, const struct seccomp_notif *asked,
                          struct seccomp_notif_resp *reply) {
    uint32_t number = ht_shown_affinity_number(&shown->affinity, (pid_t)asked->pid), node = 0;
    bool written = true;
    shown->asked = true;
    if (asked->data.args[0]) written = ht_asked_write(asked, asked->data.args[0], &number, sizeof number);
    if (written && asked->data.args[1])
        written = ht_asked_write(asked, asked->data.args[1], &node, sizeof node);
    if (written) ht_answer_value(reply, 0);
    else if (errno == EFAULT) ht_answer_error(reply, EFAULT);
    else return fail(shown, "its memory cannot be written");
    return true;
}

// What it opens, and how. False: it cannot be told, and the kernel is to answer.
static bool opened(const struct seccomp_notif *asked, char real[PATH_MAX], uint64_t *flags) {
    const __typeof__(asked->data.args[0]) *arguments = asked->data.args;
    struct open_how how = {0};
    char path[PATH_MAX];
    bool at = asked->data.nr == SYS_openat || asked->data.nr == SYS_openat2;
    ptrdiff_t got = ht_asked_read(asked, arguments[at ? 1 : 0], path, sizeof path);
    if (got <= 0 || !memchr(path, 0, (size_t)got)) return false;
    *flags = arguments[at ? 2 : 1];
    if (asked->data.nr == SYS_openat2) {
        // A path is another one where it is to stay below a folder.
        if (ht_asked_read(asked, arguments[2], &how, sizeof how) != sizeof how || how.resolve) return false;
        *flags = how.flags;
    }
    return ht_child_path((pid_t)asked->pid, at ? (int)arguments[0] : AT_FDCWD, path, real);
}

// The child gets a file of its own, with what is shown of the machine.
static bool answer_open(struct ht_shown_processors *shown, int listener, const struct seccomp_notif *asked,
                        struct seccomp_notif_resp *reply) {
    char real[PATH_MAX];
    uint64_t flags;
    if (!opened(asked, real, &flags)) return true;
    int fd = ht_processor_file(real, &shown->affinity);
    if (fd == HT_NOT_OF_PROCESSORS) return true;
    if (fd < 0) return fail(shown, "no memory for its files");
    shown->asked = true;
    struct added_fd added = {.id = asked->id, .source_fd = (uint32_t)fd};
    if (flags & O_CLOEXEC) added.new_fd_flags = O_CLOEXEC;
    int given = ioctl(listener, ADD_FD, &added);
    int problem = errno;
    close(fd);
    errno = problem;
    if (given >= 0) ht_answer_value(reply, given);
    else if (errno != ENOENT && errno != ESRCH)
        return fail(shown, "files cannot be passed to it, which takes Linux 5.9");
    return true;
}

static bool answer(void *context, int listener, const struct seccomp_notif *asked,
                   struct seccomp_notif_resp *reply) {
    struct ht_shown_processors *shown = context;
    if (!still_waits(listener, asked)) return true;
    if (!ht_shown_affinity_begin(&shown->affinity, (pid_t)asked->pid))
        return errno == ESRCH || fail(shown, "its processors are not known");
    switch (asked->data.nr) {
    case SYS_sched_getaffinity: return answer_affinity(shown, asked, reply);
    case SYS_sched_setaffinity:
        return ht_shown_affinity_set(&shown->affinity, asked, reply) || fail(shown, "no memory");
    case SYS_getcpu: return answer_number(shown, asked, reply);
#ifdef SYS_open
    case SYS_open:
#endif
    case SYS_openat2:
    case SYS_openat: return answer_open(shown, listener, asked, reply);
    default: return !shown->counter || ht_syscall_count_take(shown->counter, asked);
    }
}

bool ht_shown_processors_start(struct ht_shown_processors *shown, uint32_t count,
                               struct ht_chosen_processors *chosen, struct ht_syscall_counter *counter) {
    *shown =
        (struct ht_shown_processors){.affinity = {.shown = count, .numbers = chosen}, .counter = counter};
    return ht_kernel_listener_start(&shown->listener, answer, shown);
}

void ht_shown_processors_stop(struct ht_shown_processors *shown) {
    ht_kernel_listener_stop(&shown->listener);
    ht_shown_affinity_free(&shown->affinity);
}

void ht_processors_restrict(uint32_t count) {
    cpu_set_t allowed, chosen;
    CPU_ZERO(&chosen);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    for (unsigned i = 0; i < CPU_SETSIZE && count > 0; i++) {
        if (!CPU_ISSET(i, &allowed)) continue;
        CPU_SET(i, &chosen);
        count--;
    }
    // A processor that has gone meanwhile is no reason not to run.
    if (count == 0) sched_setaffinity(0, sizeof chosen, &chosen);
}
