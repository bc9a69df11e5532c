// SPDX-License-Identifier: Apache-2.0
// Replaces itself by exec in the same process several times, allocating in every image.
// Usage: exec_self COUNTS [ROUNDS]
#include "target_support.h"

enum { SIZE_IMAGE = 7200 };

int main(int argc, char **argv) {
    if (argc < 2) target_fail("usage: exec_self COUNTS [ROUNDS]");
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    tally_open(argv[1]);
    tally_churn(SIZE_IMAGE, 100);
    if (rounds == 0) return 6;
    char left[12];
    snprintf(left, sizeof left, "%d", rounds - 1);
    void *live = tally_malloc(SIZE_IMAGE);  // dies with the image, never freed
    if (live) execl("/proc/self/exe", argv[0], argv[1], left, (char *)NULL);
    target_fail("exec failed");
}
