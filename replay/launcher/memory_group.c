// SPDX-License-Identifier: Apache-2.0
#include "memory_group.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "machine_memory.h"

static const char group_prefix[] = "heaptape-";
enum { LEFT_FOR_S = 60 };

static int open_in(const struct ht_memory_group *group, const char *file, int flags) {
    char path[sizeof group->folder + 64];
    snprintf(path, sizeof path, "%s/%s", group->folder, file);
    return open(path, flags);
}

static bool write_in(const struct ht_memory_group *group, const char *file, const char *text) {
    int fd = open_in(group, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int problem = errno;
    close(fd);
    errno = problem;
    return written;
}

// A folder below this one that has limits of memory. In version 2 a group that has processes itself cannot have groups
// with limits, so that a sibling is the next best.
static bool make_folder(struct ht_memory_group *group, const struct ht_control_group *above) {
    static unsigned made;
    snprintf(group->folder, sizeof group->folder, "%s/%s%d-%u", above->folder, group_prefix, (int)getpid(),
             ++made);
    if (mkdir(group->folder, 0755)) return false;
    group->procs_fd = open_in(group, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    group->stat_fd = open_in(group, "memory.stat", O_RDONLY);
    if (group->procs_fd >= 0 && group->stat_fd >= 0) return true;
    int problem = errno;
    ht_memory_group_remove(group);
    errno = problem;
    return false;
}

// Nor may it swap: what a limit is for would then take time instead.
static bool set_limit(const struct ht_memory_group *group, uint64_t limit_bytes) {
    char text[32];
    if (limit_bytes == HT_NO_LIMIT) return true;
    snprintf(text, sizeof text, "%" PRIu64, limit_bytes);
    if (!write_in(group, group->unified ? "memory.max" : "memory.limit_in_bytes", text)) return false;
    if (group->unified) write_in(group, "memory.swap.max", "0");
    else if (!write_in(group, "memory.memsw.limit_in_bytes", text)) write_in(group, "memory.swappiness", "0");
    return true;
}

bool ht_memory_group_make(struct ht_memory_group *group, uint64_t limit_bytes, char *problem, size_t room) {
    struct ht_control_group above;
    *group = (struct ht_memory_group){.procs_fd = -1, .stat_fd = -1};
    if (!ht_control_group_here("memory", &above)) {
        snprintf(problem, room, "this process is in no control group");
        return false;
    }
    group->unified = above.unified;
    struct ht_control_group beside = above;
    bool made = make_folder(group, &above) ||
                (above.unified && ht_control_group_up(&beside) && make_folder(group, &beside));
    if (made && set_limit(group, limit_bytes)) return true;
    if (made) snprintf(problem, room, "no limit can be set: %s", strerror(errno));
    else if (errno == ENOENT)
        snprintf(problem, room, "groups in %s%s have no limits of memory", above.folder,
                 above.unified ? ", and beside it," : "");
    else snprintf(problem, room, "no group can be made in %s: %s", above.folder, strerror(errno));
    if (made) ht_memory_group_remove(group);
    return false;
}

// Is the name one that make_folder gives, of a process that has ended?
static bool is_left(const char *name) {
    char *end;
    if (strncmp(name, group_prefix, strlen(group_prefix)) != 0) return false;
    const char *digits = name + strlen(group_prefix);
    unsigned long pid = strtoul(digits, &end, 10);
    if (!isdigit((unsigned char)*digits) || pid == 0 || pid > INT_MAX || *end != '-') return false;
    const char *number = end + 1;
    if (!*number || number[strspn(number, "0123456789")]) return false;
    return kill((pid_t)pid, 0) && errno == ESRCH;
}

// A launcher in another namespace of processes has numbers that mean others here; but its groups are empty only for a moment.
static void sweep(const char *path) {
    struct stat seen;
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *entry; (entry = readdir(folder));)
        if (is_left(entry->d_name) && !fstatat(dirfd(folder), entry->d_name, &seen, AT_SYMLINK_NOFOLLOW) &&
            seen.st_uid == geteuid() && time(NULL) - seen.st_mtime > LEFT_FOR_S)
            // The kernel refuses where there is a process or another group in it.
            unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    closedir(folder);
}

void ht_memory_groups_sweep(void) {
    struct ht_control_group above;
    if (!ht_control_group_here("memory", &above)) return;
    sweep(above.folder);
    if (above.unified && ht_control_group_up(&above)) sweep(above.folder);
}

bool ht_memory_group_join(const struct ht_memory_group *group) { return write(group->procs_fd, "0", 1) == 1; }

bool ht_memory_group_killed(const struct ht_memory_group *group) {
    char path[sizeof group->folder + 64];
    snprintf(path, sizeof path, "%s/%s", group->folder,
             group->unified ? "memory.events" : "memory.oom_control");
    return ht_number_in_file(path, "oom_kill ") > 0;
}

void ht_memory_group_remove(struct ht_memory_group *group) {
    const struct timespec moment = {.tv_nsec = 10000000};
    if (group->procs_fd >= 0) close(group->procs_fd);
    if (group->stat_fd >= 0) close(group->stat_fd);
    // A killed process leaves its group a moment after its parent has heard of it.
    for (int tries = 0; rmdir(group->folder) && errno == EBUSY && tries < 100; tries++)
        nanosleep(&moment, NULL);
    group->procs_fd = group->stat_fd = -1;
}
