// SPDX-License-Identifier: Apache-2.0
// A block of 32 MiB that is filled from its start to its end, evenly, over 0.2 s: with small calls in between
// (calls), without any (silent), or at once, before 0.2 s of sleep (sleeps). Or of which the second half is filled from its
// end on, before the first half is all that is kept (downward). Usage: slow_fill KIND
// The time is the processor's: where others take it for a while the filling waits too, and stays even.
#include <stdbool.h>
#include <time.h>

#include "target_support.h"

enum { PAGE = 4096, PAGES = 8192, STEPS = 100, STEP_NS = 2000000 };

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int fill_downward(void) {
    char *block = malloc((size_t)PAGES * PAGE);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t page = step * PAGES / 2 / STEPS; page < (step + 1) * PAGES / 2 / STEPS; page++)
            ((volatile char *)block)[(PAGES - 1 - page) * PAGE] = 1;
        free(malloc(100));
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS / 4}, NULL);
    }
    block = realloc(block, (size_t)PAGES / 2 * PAGE);
    if (!block) target_fail("no block");
    free(malloc(100));
    return 18;  // the block stays
}

int main(int argc, char **argv) {
    if (argc < 2) target_fail("usage: slow_fill KIND");
    if (!strcmp(argv[1], "downward")) return fill_downward();
    bool calls = !strcmp(argv[1], "calls"), sleeps = !strcmp(argv[1], "sleeps");
    volatile char *block = malloc((size_t)PAGES * PAGE);
    uint64_t started_ns = now_ns();
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint64_t page = step * PAGES / STEPS; page < (step + 1) * PAGES / STEPS; page++)
            block[page * PAGE] = 1;
        if (calls) free(malloc(100));
        while (!sleeps && now_ns() < started_ns + (step + 1) * STEP_NS) continue;
    }
    if (sleeps) nanosleep(&(struct timespec){.tv_nsec = STEPS * STEP_NS}, NULL);
    free((void *)block);
    return 18;
}
