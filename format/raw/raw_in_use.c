// SPDX-License-Identifier: Apache-2.0
#include "raw_in_use.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// 1 or 0, or -1 where the process cannot be read.
static int look_into_process(const struct ht_raw_log *log) {
    char line[4096 + 256];
    struct stat status;
    snprintf(line, sizeof line, "/proc/%" PRIu32 "/maps", log->header.pid);
    FILE *maps = fopen(line, "re");
    if (!maps) return -1;
    bool known = !fstat(log->fd, &status), found = false;
    while (known && !found && fgets(line, sizeof line, maps)) {
        unsigned major, minor;
        uint64_t inode;
        found = sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major, &minor, &inode) == 3 &&
                inode == status.st_ino && makedev(major, minor) == status.st_dev;
    }
    fclose(maps);
    return known ? found : -1;
}

bool ht_raw_is_mapped(const struct ht_raw_log *log) { return look_into_process(log) > 0; }

// One that cannot be read, and exists, counts as having it mapped.
static bool seems_mapped(const struct ht_raw_log *log) {
    int mapped = look_into_process(log);
    return mapped < 0 ? !kill((pid_t)log->header.pid, 0) || errno != ESRCH : mapped > 0;
}

// When a process opens the file for writing while we hold the lease, the kernel sends us a signal: SIGIO,
// which would end us, unless another is chosen. SIGURG is ignored by default, whichever thread it comes to.
static bool take_lease(int fd) { return !fcntl(fd, F_SETSIG, SIGURG) && !fcntl(fd, F_SETLEASE, F_RDLCK); }

bool ht_raw_in_use(const struct ht_raw_log *log) {
    // A read lease is granted only where nobody has the file open, or mapped, for writing.
    int fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return seems_mapped(log);
    bool granted = take_lease(fd);
    bool refused = !granted && errno == EAGAIN;
    if (granted) fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
    return granted ? false : refused || seems_mapped(log);
}
