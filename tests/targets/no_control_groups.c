// SPDX-License-Identifier: Apache-2.0
// Preloaded into replay, it finds no control group that it could make, whatever the machine has: then a limit of memory is
// judged by readings, which a script gives.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int mkdir(const char *path, mode_t mode) {
    if (!strncmp(path, "/sys/fs/cgroup", strlen("/sys/fs/cgroup"))) {
        errno = EROFS;
        return -1;
    }
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
