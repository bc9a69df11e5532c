// SPDX-License-Identifier: Apache-2.0
#include "memory_residency.h"

#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

#include "kernel_text.h"

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
