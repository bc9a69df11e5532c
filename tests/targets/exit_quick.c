// SPDX-License-Identifier: Apache-2.0
// Ends by _exit: no destructor and no handler of the recorder runs. Usage: exit_quick COUNTS
#include "target_support.h"

enum { SIZE_FREED = 7920, SIZE_LIVE };

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    tally_churn(SIZE_FREED, 1000);
    for (int i = 0; i < 1000; i++) {
        void *volatile live = tally_malloc(SIZE_LIVE);
        (void)live;
    }
    _exit(14);
}
