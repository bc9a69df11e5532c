// SPDX-License-Identifier: Apache-2.0
// Closes every descriptor it did not open, puts others over all numbers, and allocates all along.
// Prints the number that its first open gets. Usage: close_all_fds COUNTS
#include "target_support.h"

enum { SIZE_BEFORE = 7800, SIZE_CLOSED, SIZE_OVERWRITTEN, LARGEST_FD = 200 };

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    tally_churn(SIZE_BEFORE, 100);
    int fd = open("/dev/null", O_WRONLY);
    char text[32];
    int length = snprintf(text, sizeof text, "first fd %d\n", fd);
    if (write(1, text, (size_t)length) != length) return 1;
    closefrom(3);
    // Enough that the recorder needs new chunks after its descriptors, if it had any, are gone.
    for (int i = 0; i < 200000; i++) free(tally_malloc(SIZE_CLOSED));
    fd = open("/dev/null", O_WRONLY);
    for (int other = 3; other < LARGEST_FD; other++)
        if (other != fd) dup2(fd, other);
    for (int i = 0; i < 200000; i++) free(tally_malloc(SIZE_OVERWRITTEN));
    for (int other = 3; other < LARGEST_FD; other++)
        if (fcntl(other, F_GETFD) < 0) return 1;  // somebody closed what was not theirs
    return 13;
}
