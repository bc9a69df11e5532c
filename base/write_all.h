// SPDX-License-Identifier: Apache-2.0
// Writes a file's next bytes, all of them or as many as fit.
#ifndef HEAPTAPE_WRITE_ALL_H
#define HEAPTAPE_WRITE_ALL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

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

#endif
