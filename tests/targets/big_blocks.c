// SPDX-License-Identifier: Apache-2.0
// Large blocks that are touched in part, fresh from the system and recycled; prints as JSON what a
// recorder should find resident. Usage: big_blocks JSON [END]; END: how it ends, other than by a return from main
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "target_support.h"

enum { PAGE = 4096, FRESH = 32, TOUCHED = 64, BLOCK_PAGES = 256, RECYCLED = 20 };

static void touch(char *block, int pages) {
    for (int page = 0; page < pages; page++) ((volatile char *)block)[(size_t)page * PAGE + 64] = 1;
}

static int end_by(const char *end) {
    if (!strcmp(end, "_exit")) _exit(15);
    if (!strcmp(end, "_Exit")) _Exit(15);
    if (!strcmp(end, "quick_exit")) quick_exit(15);
    if (!strcmp(end, "kill")) raise(SIGKILL);
    return 15;
}

int main(int argc, char **argv) {
    static struct plain_writer out;
    if (argc < 2) target_fail("usage: big_blocks JSON");
    // Each block of a megabyte is a mapping of its own, whose pages are its own.
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    for (int i = 0; i < FRESH; i++) {
        char *block = malloc((size_t)BLOCK_PAGES * PAGE);
        touch(block, TOUCHED);
        free(block);
    }
    // Below the threshold: the second and later ones get the first one's memory, resident already.
    for (int i = 0; i < RECYCLED; i++) {
        char *block = malloc(100 * 1024);
        touch(block, i ? 1 : 25);
        free(block);
    }
    char *live = malloc((size_t)2 * BLOCK_PAGES * PAGE);
    touch(live, 2 * TOUCHED);
    writer_open(&out, argv[1]);
    writer_print(&out,
                 "{\"fresh\": {\"size\": %d, \"blocks\": %d, \"pages\": %d},"
                 " \"recycled\": {\"size\": %d, \"blocks\": %d, \"pages\": 25},"
                 " \"live\": {\"size\": %d, \"pages\": %d}}\n",
                 BLOCK_PAGES * PAGE, FRESH, TOUCHED, 100 * 1024, RECYCLED, 2 * BLOCK_PAGES * PAGE,
                 2 * TOUCHED);
    writer_close(&out);
    return end_by(argc > 2 ? argv[2] : "");
}
