// SPDX-License-Identifier: Apache-2.0
#include "module_build_id.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <libelf.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_later(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static bool read_build_id(int fd, char digits[BUILD_ID_DIGITS_BYTES]) {
    const void *id = NULL;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    ssize_t bytes = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
    bool fits = bytes > 0 && 2 * bytes < BUILD_ID_DIGITS_BYTES;
    for (ssize_t i = 0; fits && i < bytes; i++)
        snprintf(digits + 2 * i, 3, "%02x", ((const unsigned char *)id)[i]);
    elf_end(elf);
    return fits;
}

bool module_build_id(const char *path, const struct timespec *not_after, char digits[BUILD_ID_DIGITS_BYTES]) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool is_old = fd >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode) &&
                  (!not_after || !is_later(&status.st_mtim, not_after));
    bool found = is_old && read_build_id(fd, digits);
    if (fd >= 0) close(fd);
    return found;
}
