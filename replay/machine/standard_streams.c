// SPDX-License-Identifier: Apache-2.0
#include "standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void ht_standard_streams_occupy(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        // For the other direction, so that using it fails.
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
    }
}
