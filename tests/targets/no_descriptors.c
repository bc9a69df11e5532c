// SPDX-License-Identifier: Apache-2.0
// Before its first allocation, and before any library's constructor could make one, the program may open
// nothing any more. Usage: no_descriptors COUNTS
#include <sys/resource.h>

#include "target_support.h"

enum { SIZE_MAIN = 7820 };

static void before_constructors(int argc, char **argv, char **environment) {
    struct rlimit none = {0, 0};
    (void)environment;
    tally_open(argc > 1 ? argv[1] : NULL);
    if (setrlimit(RLIMIT_NOFILE, &none)) target_fail("cannot set the limit");
}
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = before_constructors;

int main(void) {
    tally_churn(SIZE_MAIN, 10000);
    return 64;
}
