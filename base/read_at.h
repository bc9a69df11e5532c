// SPDX-License-Identifier: Apache-2.0
// Reads a file's bytes at an offset, all of them or none.
#ifndef HEAPTAPE_READ_AT_H
#define HEAPTAPE_READ_AT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

// False where the file ends first (errno is then 0) or cannot be read.
static inline bool ht_read_at(int fd, void *to, size_t bytes, uint64_t offset) {
    uint8_t *at = to;
    while (bytes) {
        ssize_t got = pread(fd, at, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR) continue;
        if (got == 0) errno = 0;
        if (got <= 0) return false;
        at += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return true;
}

#endif
