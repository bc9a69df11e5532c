// SPDX-License-Identifier: Apache-2.0
#include "process_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// A mapping of a file: a line of /proc/PID/maps.
struct mapped_file {
    uint64_t start, end, inode;
    unsigned major, minor;
    char path[PATH_MAX];
};

static bool read_line(const char *line, struct mapped_file *file) {
    return sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %x:%x %" SCNu64 " %4095[^\n]", &file->start,
                  &file->end, &file->major, &file->minor, &file->inode, file->path) == 6;
}

static FILE *open_maps(const char *process) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%s/maps", process);
    return fopen(name, "re");
}

// The number that the process has for itself: in a container another than ours. The same where the kernel does
// not report it.
static unsigned own_number(pid_t pid) {
    char line[512];
    unsigned number = (unsigned)pid;
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *status = fopen(line, "re");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "NSpid:", 6)) continue;
        const char *last = strrchr(line, '\t');
        if (last) sscanf(last, "%u", &number);
        break;
    }
    if (status) fclose(status);
    return number;
}

static bool is_removed(const char *path) {
    static const char mark[] = " (deleted)";
    size_t length = strlen(path), behind = sizeof mark - 1;
    return length > behind && !strcmp(path + length - behind, mark);
}

// The newest log of that number, which has the highest sequence. A child that shares its parent's memory has the
// parent's log, too.
static int find_mapping(pid_t pid, struct mapped_file *newest) {
    static const char start[] = "/malloc-footprint.";
    char line[PATH_MAX + 256], name[16];
    unsigned number = own_number(pid), best = 0;
    bool any = false, any_removed = false;
    snprintf(name, sizeof name, "%d", (int)pid);
    FILE *maps = open_maps(name);
    if (!maps) return -1;
    while (fgets(line, sizeof line, maps)) {
        struct mapped_file file;
        unsigned owner = 0, sequence = 0;
        if (!read_line(line, &file)) continue;
        const char *last = strrchr(file.path, '/');
        if (!last || strncmp(last, start, sizeof start - 1)) continue;
        if (sscanf(last + sizeof start - 1, "%u.%u", &owner, &sequence) < 1 || owner != number) continue;
        any_removed |= is_removed(file.path);
        if (is_removed(file.path) || (any && sequence <= best)) continue;
        any = true;
        best = sequence;
        *newest = file;
    }
    fclose(maps);
    if (!any) errno = any_removed ? ESTALE : ENOENT;
    return any ? 0 : -1;
}

// Whether the open file is the one in the mapping. Device and inode of both come from the same place, because
// those of fstat differ from it on some file systems (overlayfs, btrfs).
static bool is_the_file(int fd, const struct mapped_file *wanted) {
    char line[PATH_MAX + 256];
    void *own = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    FILE *maps = own == MAP_FAILED ? NULL : open_maps("self");
    bool same = false;
    while (maps && fgets(line, sizeof line, maps)) {
        struct mapped_file file;
        if (!read_line(line, &file) || file.start != (uintptr_t)own) continue;
        same = file.inode == wanted->inode && file.major == wanted->major && file.minor == wanted->minor;
        break;
    }
    if (maps) fclose(maps);
    if (own != MAP_FAILED) munmap(own, 1);
    return same;
}

// 1 if the log is there and is the one, 0 if not, -1 with error if it is the one, but no sound log.
static int try_path(struct ht_raw_log *log, const char *path, const struct mapped_file *wanted,
                    struct ht_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool same = fd >= 0 && is_the_file(fd, wanted);
    if (fd >= 0) close(fd);
    if (!same) return 0;
    if (ht_raw_open(log, path, error)) return -1;
    if (is_the_file(log->fd, wanted)) return 1;
    ht_raw_close(log);
    return 0;
}

int process_log_open(struct process_log *found, pid_t pid, struct ht_error *error) {
    struct mapped_file file;
    char by_root[PATH_MAX + 64], by_mapping[96];
    if (find_mapping(pid, &file)) return -1;
    snprintf(by_root, sizeof by_root, "/proc/%d/root%s", (int)pid, file.path);
    snprintf(by_mapping, sizeof by_mapping, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, file.start,
             file.end);
    const char *const ways[] = {file.path, by_root, by_mapping};
    snprintf(found->name, sizeof found->name, "%s", file.path);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int got = try_path(&found->log, ways[i], &file, error);
        if (got > 0) return 0;
        errno = 0;
        if (got < 0) return -1;
    }
    errno = EXDEV;
    return -1;
}

void process_log_close(struct process_log *found) { ht_raw_close(&found->log); }
