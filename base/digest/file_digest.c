// SPDX-License-Identifier: Apache-2.0
#include "file_digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

// False with errno.
static bool add_all(EVP_MD_CTX *digest, int fd) {
    static unsigned char data[READ_BYTES];
    for (;;) {
        ssize_t got = read(fd, data, sizeof data);
        if (got == 0) return true;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        if (!EVP_DigestUpdate(digest, data, (size_t)got)) {
            errno = EIO;  // libcrypto sets no errno
            return false;
        }
    }
}

int ht_file_sha256(const char *path, char hex[HT_DIGEST_TEXT_BYTES]) {
    unsigned char value[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    errno = ENOMEM;
    bool done = digest && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) && add_all(digest, fd) &&
                EVP_DigestFinal_ex(digest, value, &bytes);
    int saved = errno;
    EVP_MD_CTX_free(digest);
    close(fd);
    errno = saved;
    for (unsigned i = 0; done && i < bytes; i++) snprintf(hex + 2 * i, 3, "%02x", value[i]);
    return done ? 0 : -1;
}
