// SPDX-License-Identifier: Apache-2.0
// A program that has functions of libc's names, as shells and sandboxes do: whatever a preloaded library
// calls by these names ends up here. Prints at its end how often each was called by somebody else, which must
// be as without that library. Usage: own_names COUNTS
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "target_modes.h"

enum { SIZE_MAIN = 7670, SIZE_CHILD };

enum name {
    GETENV,
    OPEN,
    OPENAT,
    CLOSE,
    READ,
    WRITE,
    FTRUNCATE,
    FSTAT,
    UNLINK,
    GETCWD,
    READLINK,
    MADVISE,
    MPROTECT,
    MINCORE,
    GETPID,
    PRCTL,
    SYSCONF,
    SNPRINTF,
    NAMES
};
static const char *const names[NAMES] = {"getenv",    "open",    "openat", "close",  "read",     "write",
                                         "ftruncate", "fstat",   "unlink", "getcwd", "readlink", "madvise",
                                         "mprotect",  "mincore", "getpid", "prctl",  "sysconf",  "snprintf"};
static unsigned long called[NAMES];

static long denied(enum name name) {
    called[name]++;
    return -1;
}

char *getenv(const char *name) {
    (void)name;
    denied(GETENV);
    return NULL;
}
int open(const char *path, int flags, ...) {
    (void)path, (void)flags;
    return (int)denied(OPEN);
}
int openat(int folder, const char *path, int flags, ...) {
    (void)folder, (void)path, (void)flags;
    return (int)denied(OPENAT);
}
int close(int fd) {
    (void)fd;
    return (int)denied(CLOSE);
}
ssize_t read(int fd, void *to, size_t bytes) {
    (void)fd, (void)to, (void)bytes;
    return denied(READ);
}
ssize_t write(int fd, const void *from, size_t bytes) {
    (void)fd, (void)from, (void)bytes;
    return denied(WRITE);
}
int ftruncate(int fd, off_t bytes) {
    (void)fd, (void)bytes;
    return (int)denied(FTRUNCATE);
}
int fstat(int fd, struct stat *status) {
    (void)fd, (void)status;
    return (int)denied(FSTAT);
}
int unlink(const char *path) {
    (void)path;
    return (int)denied(UNLINK);
}
char *getcwd(char *to, size_t bytes) {
    (void)to, (void)bytes;
    denied(GETCWD);
    return NULL;
}
ssize_t readlink(const char *path, char *to, size_t bytes) {
    (void)path, (void)to, (void)bytes;
    return denied(READLINK);
}
int madvise(void *at, size_t bytes, int advice) {
    (void)at, (void)bytes, (void)advice;
    return (int)denied(MADVISE);
}
int mprotect(void *at, size_t bytes, int protection) {
    (void)at, (void)bytes, (void)protection;
    return (int)denied(MPROTECT);
}
int mincore(void *at, size_t bytes, unsigned char *present) {
    (void)at, (void)bytes, (void)present;
    return (int)denied(MINCORE);
}
pid_t getpid(void) { return (pid_t)denied(GETPID); }
int prctl(int option, ...) {
    (void)option;
    return (int)denied(PRCTL);
}
long sysconf(int name) {
    (void)name;
    return denied(SYSCONF);
}
int snprintf(char *to, size_t room, const char *format, ...) {
    (void)to, (void)room, (void)format;
    return (int)denied(SNPRINTF);
}

static void print(const char *text) { syscall(SYS_write, 1, text, strlen(text)); }

static void open_counters(const char *path) {
    size_t bytes = TALLY_SIZES * sizeof(uint64_t);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || syscall(SYS_ftruncate, fd, bytes)) _exit(99);
    tally_counts =
        (volatile uint64_t *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    open_counters(argv[1]);
    tally_churn(SIZE_MAIN, 100000);
    for (int i = 0; i < 20; i++) free(malloc(1 << 20));
    pid_t pid = fork();
    if (pid == 0) {
        tally_churn(SIZE_CHILD, 1000);
        _exit(5);
    }
    if (child_status(pid) != 5) return 1;
    for (int name = 0; name < NAMES; name++)
        if (called[name]) {
            print(names[name]);
            print(" was called\n");
        }
    print("end\n");
    return 103;
}
