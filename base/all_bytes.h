// SPDX-License-Identifier: Apache-2.0
// Reads and writes all bytes that were asked for, however many calls it takes.
#ifndef HEAPTAPE_ALL_BYTES_H
#define HEAPTAPE_ALL_BYTES_H

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

// False with errno where not all could be written.
static inline bool ht_write_all(int fd, const void *bytes, size_t count) {
    const uint8_t *from = bytes;
    while (count) {
        ssize_t done = write(fd, from, count);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        from += done;
        count -= (size_t)done;
    }
    return true;
}

// The same from that offset on.
static inline bool ht_write_at(int fd, const void *from, size_t bytes, uint64_t offset) {
    const uint8_t *at = from;
    while (bytes) {
        ssize_t put = pwrite(fd, at, bytes, (off_t)offset);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        at += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return true;
}

#endif
