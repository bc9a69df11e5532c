// SPDX-License-Identifier: Apache-2.0
#include "rss_probe.h"

#include <fcntl.h>
#include <unistd.h>

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
