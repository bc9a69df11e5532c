#include "shown_processors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "processor_files.h"
#include "processor_number.h"
#include "syscall_count.h"

enum { PATH_BYTES = 512, PAGE_BYTES_LEAST = 4096 };

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

static void reply_error(struct seccomp_notif_resp *reply, int number) {
    reply->flags = 0;
    reply->error = -number;
}

static void reply_value(struct seccomp_notif_resp *reply, int64_t value) {
    reply->flags = 0;
    reply->val = value;
}

static bool still_waits(int listener, const struct seccomp_notif *asked) {
    uint64_t id = asked->id;
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static bool write_there(const struct seccomp_notif *asked, uint64_t address, const void *bytes,
                        size_t count) {
    struct iovec here = {(void *)bytes, count}, there = {(void *)(uintptr_t)address, count};
    return process_vm_writev((pid_t)asked->pid, &here, 1, &there, 1, 0) == (ssize_t)count;
}

// A text that ends in the page where it begins or in the next one. False if it is longer, or not there.
static bool read_path(const struct seccomp_notif *asked, uint64_t address, char path[PATH_BYTES]) {
    size_t in_page = PAGE_BYTES_LEAST - address % PAGE_BYTES_LEAST;
    if (in_page > PATH_BYTES) in_page = PATH_BYTES;
    struct iovec here = {path, PATH_BYTES},
                 there[] = {{(void *)(uintptr_t)address, in_page},
                            {(void *)(uintptr_t)(address + in_page), PATH_BYTES - in_page}};
    ssize_t got = process_vm_readv((pid_t)asked->pid, &here, 1, there, in_page < PATH_BYTES ? 2 : 1, 0);
    return got > 0 && memchr(path, 0, (size_t)got);
}

// As the kernel does where so many processors are possible: whole words, of which the caller must have room for all.
static bool answer_affinity(struct ht_shown_processors *shown, const struct seccomp_notif *asked,
                            struct seccomp_notif_resp *reply) {
    uint64_t room = asked->data.args[1], words[HT_PROCESSORS_MAX / 64] = {0};
    size_t bytes = (shown->count + 63) / 64 * sizeof *words;
    if (room == HT_BEGIN_COUNTING && !asked->data.args[2]) {
        if (shown->counter) ht_syscall_count_begin(shown->counter);
        reply_error(reply, EINVAL);
        return true;
    }
    if (room == HT_TRUE_AFFINITY) return true;
    shown->asked = true;
    if (room * CHAR_BIT < shown->count || room % sizeof(long)) {
        reply_error(reply, EINVAL);
        return true;
    }
    if (bytes > room) bytes = room;
    for (uint32_t i = 0; i < shown->count; i++) words[i / 64] |= UINT64_C(1) << i % 64;
    if (write_there(asked, asked->data.args[2], words, bytes)) reply_value(reply, (int64_t)bytes);
    else if (errno == EFAULT) reply_error(reply, EFAULT);
    else return fail(shown, "its memory can't be written");
    return true;
}

static bool answer_number(struct ht_shown_processors *shown, const struct seccomp_notif *asked,
                          struct seccomp_notif_resp *reply) {
    uint32_t number = ht_processor_number((pid_t)asked->pid, shown->count), node = 0;
    bool written = true;
    shown->asked = true;
    if (asked->data.args[0]) written = write_there(asked, asked->data.args[0], &number, sizeof number);
    if (written && asked->data.args[1]) written = write_there(asked, asked->data.args[1], &node, sizeof node);
    if (written) reply_value(reply, 0);
    else if (errno == EFAULT) reply_error(reply, EFAULT);
    else return fail(shown, "its memory can't be written");
    return true;
}

// The child gets a file of its own, with what is shown of the machine.
static bool answer_open(struct ht_shown_processors *shown, int listener, const struct seccomp_notif *asked,
                        struct seccomp_notif_resp *reply) {
    bool at = asked->data.nr == SYS_openat;
    char path[PATH_BYTES];
    if (!read_path(asked, asked->data.args[at ? 1 : 0], path)) return true;
    int fd = ht_processor_file(path, shown->count);
    if (fd == HT_NOT_OF_PROCESSORS) return true;
    if (fd < 0) return fail(shown, "no memory for its files");
    shown->asked = true;
    struct added_fd added = {.id = asked->id, .source_fd = (uint32_t)fd};
    if (asked->data.args[at ? 2 : 1] & O_CLOEXEC) added.new_fd_flags = O_CLOEXEC;
    int given = ioctl(listener, ADD_FD, &added);
    int problem = errno;
    close(fd);
    errno = problem;
    if (given >= 0) reply_value(reply, given);
    else if (errno != ENOENT && errno != ESRCH)
        return fail(shown, "files can't be passed to it, which takes Linux 5.9");
    return true;
}

static bool answer(void *context, int listener, const struct seccomp_notif *asked,
                   struct seccomp_notif_resp *reply) {
    struct ht_shown_processors *shown = context;
    if (!still_waits(listener, asked)) return true;
    switch (asked->data.nr) {
    case SYS_sched_getaffinity: return answer_affinity(shown, asked, reply);
    case SYS_getcpu: return answer_number(shown, asked, reply);
#ifdef SYS_open
    case SYS_open:
#endif
    case SYS_openat: return answer_open(shown, listener, asked, reply);
    default: return !shown->counter || ht_syscall_count_take(shown->counter, asked);
    }
}

bool ht_shown_processors_start(struct ht_shown_processors *shown, uint32_t count,
                               struct ht_syscall_counter *counter) {
    *shown = (struct ht_shown_processors){.count = count, .counter = counter};
    return ht_kernel_listener_start(&shown->listener, answer, shown);
}

void ht_shown_processors_stop(struct ht_shown_processors *shown) {
    ht_kernel_listener_stop(&shown->listener);
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
