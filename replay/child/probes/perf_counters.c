// SPDX-License-Identifier: Apache-2.0
#include "perf_counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

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

// Where there are more events than counters the kernel takes turns: then the count is extrapolated from the
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
