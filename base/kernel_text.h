// SPDX-License-Identifier: Apache-2.0
// Figures in texts of the kernel's, such as /proc/PID/smaps_rollup, that have one on each line.
#ifndef HEAPTAPE_KERNEL_TEXT_H
#define HEAPTAPE_KERNEL_TEXT_H

#include <stdint.h>
#include <string.h>

// The bytes behind a key that ends with a colon, which the text has in KiB; "\nSwap:" is the key of a whole line. UINT64_MAX: there
// is no such key.
static inline uint64_t ht_kernel_bytes(const char *text, const char *key) {
    const char *at = strstr(text, key);
    uint64_t kib = 0;
    if (!at) return UINT64_MAX;
    at += strlen(key);
    while (*at == ' ') at++;
    while (*at >= '0' && *at <= '9') kib = kib * 10 + (uint64_t)(*at++ - '0');
    return kib * 1024;
}

#endif
