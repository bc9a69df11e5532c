// SPDX-License-Identifier: Apache-2.0
// Ends by _exit: no destructor and no handler of the recorder runs. With a second argument it fills a block after its last call.
// Usage: exit_quick COUNTS [fills]
#include "target_support.h"

enum { SIZE_FREED = 7920, SIZE_LIVE, FILLED_BYTES = 24 << 20 };

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    tally_churn(SIZE_FREED, 1000);
    for (int i = 0; i < 1000; i++) {
        void *volatile live = tally_malloc(SIZE_LIVE);
        (void)live;
    }
    volatile char *block = argc > 2 ? malloc(FILLED_BYTES) : NULL;
    for (size_t i = 0; block && i < FILLED_BYTES; i += 512) block[i] = 1;
    _exit(14);
}
