// SPDX-License-Identifier: Apache-2.0
#include "memory_residency.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int ht_residency_open(void) { return open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC); }

static uint64_t kib_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    uint64_t kib = 0;
    if (!at) return HT_FIGURE_UNKNOWN;
    at += strlen(key);
    while (*at == ' ') at++;
    while (*at >= '0' && *at <= '9') kib = kib * 10 + (uint64_t)(*at++ - '0');
    return kib * 1024;
}

void ht_residency_read(int smaps_fd, struct ht_kernel_view *residency) {
    char text[4096];
    ssize_t got = pread(smaps_fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    residency->lazyfree_bytes = kib_after(text, "\nLazyFree:");
    residency->anon_huge_bytes = kib_after(text, "\nAnonHugePages:");
    residency->swap_bytes = kib_after(text, "\nSwap:");
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
