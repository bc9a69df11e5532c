// SPDX-License-Identifier: Apache-2.0
#include "perf_counters.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "call_filter.h"
#include "raw_calls.h"

#define CACHE_READ_MISS(cache)                                                                               \
    ((cache) | PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

static const struct {
    uint32_t type;
    uint64_t config;
} events[HT_PERF_EVENTS] = {
    [HT_PERF_INSTRUCTIONS] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    [HT_PERF_CYCLES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    [HT_PERF_CACHE_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    [HT_PERF_LLC_MISSES] = {PERF_TYPE_HW_CACHE, CACHE_READ_MISS(PERF_COUNT_HW_CACHE_LL)},
    [HT_PERF_DTLB_MISSES] = {PERF_TYPE_HW_CACHE, CACHE_READ_MISS(PERF_COUNT_HW_CACHE_DTLB)},
    [HT_PERF_BRANCH_MISSES] = {PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    [HT_PERF_CONTEXT_SWITCHES] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    [HT_PERF_MIGRATIONS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

static int open_event(int event, bool user_only) {
    struct perf_event_attr attributes = {
        .type = events[event].type,
        .size = sizeof attributes,
        .config = events[event].config,
        .disabled = 1,
        .inherit = 1,
        .exclude_hv = 1,
        .exclude_kernel = user_only,
        .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
    };
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

// What happens in the kernel is the allocator's doing too, so it is counted where that is permitted. The
// software events happen nowhere else.
void ht_perf_open(struct ht_perf_counters *counters, struct ht_perf_count *counts) {
    counters->counts = counts;
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        counts[i] = (struct ht_perf_count){.value = HT_FIGURE_UNKNOWN};
        counters->fds[i] = open_event(i, false);
        bool forbidden = counters->fds[i] < 0 && (errno == EACCES || errno == EPERM);
        if (forbidden && events[i].type != PERF_TYPE_SOFTWARE) {
            counts[i].user_only = 1;
            counters->fds[i] = open_event(i, true);
        }
        if (counters->fds[i] < 0) counts[i].refusal = (uint32_t)errno;
    }
}

void ht_perf_begin(struct ht_perf_counters *counters) {
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        if (counters->fds[i] >= 0) ioctl(counters->fds[i], PERF_EVENT_IOC_ENABLE, 0);
    }
}

// The kernel takes turns if there are more events than counters: then the count is extrapolated from the
// time that it was running.
static uint64_t read_count(int fd) {
    struct {
        uint64_t value, enabled_ns, running_ns;
    } got;
    if (read(fd, &got, sizeof got) != sizeof got || !got.running_ns) return HT_FIGURE_UNKNOWN;
    if (got.running_ns >= got.enabled_ns) return got.value;
    return (uint64_t)((double)got.value * (double)got.enabled_ns / (double)got.running_ns);
}

void ht_perf_pause(struct ht_perf_counters *counters) {
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        if (counters->fds[i] >= 0) ioctl(counters->fds[i], PERF_EVENT_IOC_DISABLE, 0);
    }
}

void ht_perf_end(struct ht_perf_counters *counters) {
    for (int i = 0; i < HT_PERF_EVENTS; i++) {
        if (counters->fds[i] < 0) continue;
        counters->counts[i].value = read_count(counters->fds[i]);
        close(counters->fds[i]);
    }
}

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

#define TSYNC_ESRCH (1UL << 4)  // SECCOMP_FILTER_FLAG_TSYNC_ESRCH, which older headers lack

static struct sock_filter program[] = {HT_FILTER_BEGINS, HT_FILTER_MEMORY};

int ht_syscall_filter_install(int socket_fd) {
    const struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (!HT_FILTER_ARCHITECTURE) return ENOSYS;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    // Threads that the allocator has already are to be counted too; before Linux 5.7 only new ones can be.
    const long flags = SECCOMP_FILTER_FLAG_NEW_LISTENER, all = SECCOMP_FILTER_FLAG_TSYNC | TSYNC_ESRCH;
    int listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags | all, &filter);
    if (listener < 0 && errno == EINVAL) {
        listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
    }
    if (listener < 0) return errno;
    if (!ht_listener_send(socket_fd, listener)) _exit(1);  // nobody would ever answer
    close(listener);
    return 0;
}
