// SPDX-License-Identifier: Apache-2.0
// Allocates and frees blocks of which it writes little: hardly_touched BLOCKS BYTES WRITTEN [PAUSE_US [EVERY OTHER_BYTES]]
// With EVERY, each block of that number has OTHER_BYTES instead, and is written whole.
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "target_support.h"

static size_t number(int argc, char **argv, int at) { return argc > at ? strtoull(argv[at], NULL, 10) : 0; }

int main(int argc, char **argv) {
    size_t blocks = number(argc, argv, 1), bytes = number(argc, argv, 2), written = number(argc, argv, 3),
           pause_us = number(argc, argv, 4), every = number(argc, argv, 5), other = number(argc, argv, 6);
    if (!blocks) target_fail("usage: hardly_touched BLOCKS BYTES WRITTEN [PAUSE_US [EVERY OTHER_BYTES]]");
    for (size_t i = 1; i <= blocks; i++) {
        bool is_other = every && i % every == 0;
        char *volatile block = malloc(is_other ? other : bytes);
        if (!block) target_fail("no memory");
        memset(block, 1, is_other ? other : written);
        free(block);
        struct timespec pause = {.tv_nsec = (long)(1000 * pause_us)};
        if (pause_us) nanosleep(&pause, NULL);
    }
    return 0;
}
