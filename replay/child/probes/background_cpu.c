// SPDX-License-Identifier: Apache-2.0
#include "background_cpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "raw_clock.h"

// By system calls: opendir would call malloc.
uint64_t ht_background_cpu_ns(bool (*ours)(void *context, pid_t tid), void *context, uint32_t *threads) {
    char entries[4096];
    uint64_t cpu_ns = 0;
    long bytes;
    *threads = 0;
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && (bytes = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0) {
        for (long at = 0; at < bytes;) {
            unsigned short entry_bytes;
            memcpy(&entry_bytes, entries + at + offsetof(struct dirent64, d_reclen), sizeof entry_bytes);
            pid_t tid = atoi(entries + at + offsetof(struct dirent64, d_name));
            at += entry_bytes;
            if (tid <= 0 || ours(context, tid)) continue;
            cpu_ns += ht_cpu_ns_of_thread(tid);
            (*threads)++;
        }
    }
    if (fd >= 0) close(fd);
    return cpu_ns;
}
