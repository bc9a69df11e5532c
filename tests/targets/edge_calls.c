// SPDX-License-Identifier: Apache-2.0
// The edges of the malloc family: what each call returns and does to errno is printed, and must be as it is
// without a recorder. Usage: edge_calls COUNTS
#include <errno.h>
#include <malloc.h>

#include "target_support.h"

enum { MARK = 4242, SIZE_MAIN = 7680 };

static volatile size_t zero = 0, huge = SIZE_MAX, half = SIZE_MAX / 2;

static void say(const char *what, const void *result) {
    int then = errno;
    printf("%s: %s, errno %d\n", what, result ? "a block" : "NULL", then);
    errno = MARK;
}

static void say_number(const char *what, long number) {
    int then = errno;
    printf("%s: %ld, errno %d\n", what, number, then);
    errno = MARK;
}

static void successes(void) {
    void *block;
    errno = MARK;
    say("malloc", block = malloc(100));
    say("realloc", block = realloc(block, 100000));
    say("realloc smaller", block = realloc(block, 10));
    say("reallocarray", block = reallocarray(block, 10, 100));
    free(block);
    say("free", NULL);
    say("calloc", block = calloc(10, 100));
    free(block);
    say("large malloc", block = malloc(3 << 20));
    say("large realloc", block = realloc(block, 6 << 20));
    free(block);
    say("large free", NULL);
    free(NULL);
    say("free(NULL)", NULL);
    say("memalign", block = memalign(256, 100));
    free(block);
    say("valloc", block = valloc(100));
    free(block);
    say("pvalloc", block = pvalloc(100));
    free(block);
    say("aligned_alloc", block = aligned_alloc(64, 640));
    free(block);
    say_number("posix_memalign", posix_memalign(&block, 4096, 100));
    free(block);
    say("realloc(NULL)", block = realloc(NULL, 100));
    free(block);
}

static void zeros(void) {
    void *block;
    say("malloc(0)", block = malloc(zero));
    say("realloc to 0", realloc(block, zero));
    say("realloc(NULL, 0)", block = realloc(NULL, zero));
    free(block);
    say("calloc(0, 5)", block = calloc(zero, 5));
    free(block);
    say("calloc(5, 0)", block = calloc(5, zero));
    free(block);
    say("reallocarray to 0", reallocarray(malloc(10), zero, 7));
    say("memalign(64, 0)", block = memalign(64, zero));
    free(block);
}

static void failures(void) {
    char anything;
    void *untouched = &anything, *block = malloc(100);
    void *volatile kept = block;  // a compiler takes block for gone once it was given to realloc
    say("malloc(huge)", malloc(huge));
    say("malloc(half)", malloc(half));
    say("calloc(huge, huge)", calloc(huge, huge));
    say("calloc(half, 3)", calloc(half, 3));
    say("realloc to huge", realloc(block, huge));
    say("reallocarray overflows", reallocarray(block, half, 3));
    say("reallocarray(NULL) overflows", reallocarray(NULL, half, 3));
    say("memalign huge", memalign(64, huge - 100));
    say("aligned_alloc huge", aligned_alloc(64, half));
    say("valloc huge", valloc(huge));
    say("pvalloc huge", pvalloc(huge));
    say_number("posix_memalign(3)", posix_memalign(&untouched, 3, 100));
    say_number("posix_memalign(4)", posix_memalign(&untouched, 4, 100));
    say_number("posix_memalign(0)", posix_memalign(&untouched, 0, 100));
    say_number("posix_memalign huge", posix_memalign(&untouched, 64, huge));
    say_number("pointer untouched", untouched == &anything);
    free(kept);  // still there, for every failed realloc left it alone
}

static void usable(void) {
    for (size_t size = 1; size < 300000; size = size * 3 + 7) {
        void *block = malloc(size);
        say_number("usable", (long)malloc_usable_size(block));
        free(block);
    }
    say_number("usable(NULL)", (long)malloc_usable_size(NULL));
    void *blocks[100];
    struct mallinfo2 before = mallinfo2();
    for (int i = 0; i < 100; i++) blocks[i] = malloc(10000);
    say_number("in use", (long)(mallinfo2().uordblks - before.uordblks));
    say_number("arena", (long)(mallinfo2().arena - before.arena));
    for (int i = 0; i < 100; i++) free(blocks[i]);
    say_number("trim", malloc_trim(0));
}

int main(int argc, char **argv) {
    static char buffer[1 << 16];
    tally_open(argc > 1 ? argv[1] : NULL);
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    tally_churn(SIZE_MAIN, 10);
    successes();
    zeros();
    failures();
    usable();
    tally_churn(SIZE_MAIN, 10);
    return 120;
}
