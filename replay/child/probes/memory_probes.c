// SPDX-License-Identifier: Apache-2.0
#include "memory_probes.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "allocator.h"
#include "kernel_text.h"

int ht_rss_open(void) { return open("/proc/self/statm", O_RDONLY | O_CLOEXEC); }

static uint64_t number_after(const char **text, const char *end) {
    uint64_t value = 0;
    while (*text < end && (**text < '0' || **text > '9')) (*text)++;
    while (*text < end && **text >= '0' && **text <= '9') value = value * 10 + (uint64_t)(*(*text)++ - '0');
    return value;
}

uint64_t ht_rss_anon_bytes(int statm_fd) {
    static const uint64_t page_bytes_min = 4096;
    char line[128];
    ssize_t got = pread(statm_fd, line, sizeof line, 0);
    if (got <= 0) return 0;
    const char *at = line, *end = line + got;
    number_after(&at, end);  // the first is the size of the address space
    uint64_t resident = number_after(&at, end), shared = number_after(&at, end);
    long page_bytes = sysconf(_SC_PAGESIZE);
    return (resident - shared) * (page_bytes > 0 ? (uint64_t)page_bytes : page_bytes_min);
}

static_assert(HT_FIGURE_UNKNOWN == UINT64_MAX, "what the kernel does not say is unknown");

int ht_residency_open(void) { return open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC); }

void ht_residency_read(int smaps_fd, struct ht_kernel_view *residency) {
    char text[4096];
    ssize_t got = pread(smaps_fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    residency->lazyfree_bytes = ht_kernel_bytes(text, "\nLazyFree:");
    residency->anon_huge_bytes = ht_kernel_bytes(text, "\nAnonHugePages:");
    residency->swap_bytes = ht_kernel_bytes(text, "\nSwap:");
}

void ht_residency_sample(struct ht_residency_probe *probe, uint64_t sample, uint64_t rss_bytes) {
    if (probe->smaps_fd < 0 || !ht_probe_due(&probe->probe, sample, rss_bytes)) return;
    struct ht_kernel_view *row = &probe->figures->residency[probe->probe.count];
    row->sample = sample;
    row->rss_bytes = rss_bytes;
    ht_residency_read(probe->smaps_fd, row);
    probe->figures->residencies = probe->probe.count + 1;
    ht_probe_done(&probe->probe);
}

// In lines of NAME BYTES.
static uint64_t bytes_after(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *at = text; at; at = (at = strchr(at, '\n')) ? at + 1 : NULL) {
        uint64_t bytes = 0;
        if (strncmp(at, name, length) != 0 || at[length] != ' ') continue;
        for (at += length + 1; *at >= '0' && *at <= '9'; at++) bytes = bytes * 10 + (uint64_t)(*at - '0');
        return bytes;
    }
    return HT_FIGURE_UNKNOWN;
}

uint64_t ht_group_held_bytes(int stat_fd) {
    char text[8192];
    ssize_t got = pread(stat_fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    // Version 2, then version 1, which has that name for anonymous memory.
    uint64_t anon = bytes_after(text, "anon"), shared = bytes_after(text, "shmem");
    if (anon == HT_FIGURE_UNKNOWN) anon = bytes_after(text, "rss");
    return anon == HT_FIGURE_UNKNOWN || shared == HT_FIGURE_UNKNOWN ? HT_FIGURE_UNKNOWN : anon + shared;
}
