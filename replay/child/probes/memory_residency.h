// SPDX-License-Identifier: Apache-2.0
// What of the process's anonymous memory the kernel could take back at once, holds in huge pages, or has
// swapped out.
#ifndef HEAPTAPE_MEMORY_RESIDENCY_H
#define HEAPTAPE_MEMORY_RESIDENCY_H

#include "bounded_probe.h"
#include "child_figures.h"

struct ht_residency_probe {
    struct ht_bounded_probe probe;
    int smaps_fd;
    struct ht_child_figures *figures;
};

int ht_residency_open(void);  // /proc/self/smaps_rollup; -1 if it cannot be had
// All but sample and rss_bytes; each HT_FIGURE_UNKNOWN if it cannot be read.
void ht_residency_read(int smaps_fd, struct ht_kernel_view *residency);

// Called at each sample of RSS: takes a reading if one is due, which costs from 30 us to 16 ms for 1 GiB.
void ht_residency_sample(struct ht_residency_probe *probe, uint64_t sample, uint64_t rss_bytes);

#endif
