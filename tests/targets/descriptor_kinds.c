// SPDX-License-Identifier: Apache-2.0
// Programs that care for the numbers of their descriptors, or have none left.
// Usage: descriptor_kinds COUNTS MODE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "target_modes.h"

enum { SIZE_BEFORE = 7810, SIZE_AFTER, SIZE_OTHER, LARGEST_FD = 256 };

static void say(const char *what, long number) {
    char text[64];
    int length = snprintf(text, sizeof text, "%s %ld\n", what, number);
    if (write(1, text, (size_t)length) != length) target_fail("cannot write");
}

static void no_more_descriptors(rlim_t count) {
    struct rlimit limit = {count, count};
    if (setrlimit(RLIMIT_NOFILE, &limit)) target_fail("cannot set the limit");
}

// open, dup, pipe and socket-like calls give the lowest free number; it is printed, for comparison.
static int print_numbers(char *unused) {
    (void)unused;
    int kept[40], ends[2];
    say("first", open("/dev/null", O_RDONLY));
    tally_churn(SIZE_BEFORE, 100);
    for (int i = 0; i < 40; i++) {
        tally_churn(SIZE_AFTER, 10000);
        free(malloc(1 << 20));
        kept[i] = open("/dev/null", O_RDONLY);
        say("open", kept[i]);
        if (i % 3 == 0) close(kept[i / 2]);
        if (i % 5 == 0) say("dup", dup(1));
        if (i % 7 == 0 && !pipe(ends)) say("pipe", ends[1]);
    }
    closefrom(3);
    tally_churn(SIZE_AFTER, 100000);
    say("after closefrom", open("/dev/null", O_RDONLY));
    close(0);
    free(malloc(1 << 20));
    say("instead of stdin", open("/dev/null", O_RDONLY));
    return 60;
}

static int none_left(char *unused) {
    (void)unused;
    tally_churn(SIZE_BEFORE, 1000);
    no_more_descriptors(0);
    tally_churn(SIZE_AFTER, 300000);
    for (int i = 0; i < 20; i++) free(malloc(1 << 20));
    say("open", open("/dev/null", O_RDONLY));
    return 63;
}

int main(int argc, char **argv) {
    static const struct target_mode modes[] = {
        {"numbers", print_numbers}, {"none_left", none_left}, {NULL, NULL}};
    return run_target_mode(modes, argc, argv);
}
