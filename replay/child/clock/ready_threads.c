// SPDX-License-Identifier: Apache-2.0
// By system calls and in buffers on the stack: opendir would call malloc, which is the allocator's.
#include "ready_threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "older_libc.h"

// By the letter behind the name, which is in parentheses and may hold some of its own: R runs or may run, D waits for
// a disk and goes on by itself.
bool ht_thread_is_ready(pid_t tid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] == ' ' && (name_end[2] == 'R' || name_end[2] == 'D');
}

bool ht_another_thread_is_ready(void) {
    char entries[4096];
    bool found = false;
    long bytes;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && !found && (bytes = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < bytes && !found;) {
            unsigned short entry_bytes;
            memcpy(&entry_bytes, entries + at + offsetof(struct dirent64, d_reclen), sizeof entry_bytes);
            pid_t tid = atoi(entries + at + offsetof(struct dirent64, d_name));
            at += entry_bytes;
            found = tid > 0 && tid != ht_gettid() && ht_thread_is_ready(tid);
        }
    }
    if (fd >= 0) close(fd);
    return found;
}
