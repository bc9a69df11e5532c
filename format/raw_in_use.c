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

// Does the process that the header names have the file mapped? One that cannot be looked into does.
static bool is_mapped(const struct ht_raw_log *log) {
    char line[4096 + 256];
    struct stat status;
    pid_t pid = (pid_t)log->header.pid;
    snprintf(line, sizeof line, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(line, "re");
    if (!maps || fstat(log->fd, &status)) {
        if (maps) fclose(maps);
        return !kill(pid, 0) || errno != ESRCH;
    }
    bool found = false;
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned major, minor;
        uint64_t inode;
        found = sscanf(line, "%*s %*s %*s %x:%x %" SCNu64, &major, &minor, &inode) == 3 &&
                inode == status.st_ino && makedev(major, minor) == status.st_dev;
    }
    fclose(maps);
    return found;
}

bool ht_raw_in_use(const struct ht_raw_log *log) {
    // A read lease is granted only where nobody has the file open, or mapped, for writing.
    int fd = open(log->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return is_mapped(log);
    bool granted = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
    bool refused = !granted && errno == EAGAIN;
    if (granted) fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
    return granted ? false : refused || is_mapped(log);
}
