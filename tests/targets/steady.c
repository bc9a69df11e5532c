// SPDX-License-Identifier: Apache-2.0
// Allocates at a steady pace from two threads until a file is gone: something to pause and resume.
// Usage: steady COUNTS FILE
#include <pthread.h>

#include "target_support.h"

enum { SIZE_MAIN = 7950, SIZE_THREAD };

static const char *file;

static void go_on(size_t size) {
    void *kept[16] = {NULL};
    for (int i = 0; !access(file, F_OK); i = (i + 1) % 16) {
        free(kept[i]);  // blocks live across every pause
        kept[i] = tally_malloc(size);
        tally_churn(size, 20);
        usleep(200);
    }
    for (int i = 0; i < 16; i++) free(kept[i]);
}

static void *thread(void *unused) {
    (void)unused;
    go_on(SIZE_THREAD);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t other;
    if (argc != 3) return 1;
    tally_open(argv[1]);
    file = argv[2];
    if (pthread_create(&other, NULL, thread, NULL)) return 1;
    go_on(SIZE_MAIN);
    pthread_join(other, NULL);
    return 19;
}
