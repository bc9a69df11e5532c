// SPDX-License-Identifier: Apache-2.0
// The process's anonymous resident memory, read often and cheaply.
#ifndef HEAPTAPE_RSS_PROBE_H
#define HEAPTAPE_RSS_PROBE_H

#include <stdint.h>

int ht_rss_open(void);  // /proc/self/statm; -1 if it cannot be had
// resident less shared, which is RssAnon; 0 if it cannot be read.
uint64_t ht_rss_anon_bytes(int statm_fd);

#endif
