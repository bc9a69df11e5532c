// SPDX-License-Identifier: Apache-2.0
// A buffer that grows by a factor while it is filled, by realloc or by a new block and a copy; then some small blocks. Prints the
// most anonymous memory that was resident at once, as the kernel saw it, in bytes.
// Usage: growing_buffer realloc|copy FACTOR BYTES
#include <fcntl.h>

#include "target_support.h"

enum { FIRST_BYTES = 1 << 20, STEP_BYTES = 4096, SMALL_BLOCKS = 500 };

static char *grown(char *buffer, size_t used, size_t bytes, int copies) {
    if (!copies) return realloc(buffer, bytes);
    char *larger = malloc(bytes);
    if (larger) memcpy(larger, buffer, used);
    free(buffer);
    return larger;
}

static long kib_after(const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at) target_fail(key);
    return atol(at + strlen(key));
}

static void print_peak(void) {
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[got > 0 ? got : 0] = 0;
    long kib = kib_after(text, "VmHWM:") - kib_after(text, "RssFile:") - kib_after(text, "RssShmem:");
    got = snprintf(text, sizeof text, "%ld\n", kib * 1024);
    if (write(STDOUT_FILENO, text, (size_t)got) != got) target_fail("write");
}

int main(int argc, char **argv) {
    if (argc != 4) target_fail("usage");
    int copies = strcmp(argv[1], "copy") == 0;
    double factor = atof(argv[2]);
    size_t room = FIRST_BYTES, whole = (size_t)atol(argv[3]);
    char *buffer = malloc(room);
    for (size_t used = 0; used < whole; used += STEP_BYTES) {
        if (used + STEP_BYTES > room)
            buffer = grown(buffer, used, room = (size_t)((double)room * factor), copies);
        if (!buffer) target_fail("no memory");
        memset(buffer + used, 1, STEP_BYTES);
    }
    for (int i = 0; i < SMALL_BLOCKS; i++) {
        char *volatile block = malloc(100);
        free(block);
    }
    print_peak();
    free(buffer);
    return 0;
}
