// SPDX-License-Identifier: Apache-2.0
#include "file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

int ht_file_sha256(const char *path, char hex[HT_DIGEST_TEXT_BYTES]) {
    static uint8_t data[READ_BYTES];
    uint8_t value[SHA256_DIGEST_SIZE];
    struct sha256_ctx digest;
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    sha256_init(&digest);
    while ((got = read(fd, data, sizeof data)) != 0) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) break;
        sha256_update(&digest, (size_t)got, data);
    }
    int saved = errno;
    close(fd);
    errno = saved;
    if (got < 0) return -1;
    sha256_digest(&digest, sizeof value, value);
    for (size_t i = 0; i < sizeof value; i++) snprintf(hex + 2 * i, 3, "%02x", value[i]);
    return 0;
}
