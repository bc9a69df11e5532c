#include "syscall_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined __x86_64__
#define OUR_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define OUR_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define OUR_ARCHITECTURE 0
#endif

#define TSYNC_ESRCH (1UL << 4)  // SECCOMP_FILTER_FLAG_TSYNC_ESRCH, which older headers lack

#define LOAD(field)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, then) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), 0)
#define ANSWER(action)  BPF_STMT(BPF_RET | BPF_K, (action))

// Shared mappings are the harness's own: the stacks of replay threads.
static struct sock_filter program[] = {
    LOAD(arch),
    IF(OUR_ARCHITECTURE, 1),
    ANSWER(SECCOMP_RET_ALLOW),
    LOAD(nr),
    IF(SYS_mmap, 6),
    IF(SYS_munmap, 8),
    IF(SYS_mremap, 7),
    IF(SYS_madvise, 6),
    IF(SYS_brk, 5),
    IF(SYS_mprotect, 4),
    ANSWER(SECCOMP_RET_ALLOW),
    LOAD(args[3]),
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_SHARED, 0, 1),
    ANSWER(SECCOMP_RET_ALLOW),
    ANSWER(SECCOMP_RET_USER_NOTIF),
};

static bool send_fd(int socket_fd, int fd) {
    char byte = 0;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    passed->cmsg_level = SOL_SOCKET;
    passed->cmsg_type = SCM_RIGHTS;
    passed->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(passed), &fd, sizeof fd);
    return sendmsg(socket_fd, &message, MSG_NOSIGNAL) == 1;
}

int ht_syscall_filter_install(int socket_fd) {
    const struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (!OUR_ARCHITECTURE) return ENOSYS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    // Threads that the allocator has already are to be counted too; before Linux 5.7 only new ones can be.
    const long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER, all = SECCOMP_FILTER_FLAG_TSYNC | TSYNC_ESRCH;
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | all, &filter);
    if (listener < 0 && errno == EINVAL) {
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    }
    if (listener < 0) return errno;
    if (!send_fd(socket_fd, listener)) _exit(1);  // nobody would ever answer
    close(listener);
    return 0;
}
