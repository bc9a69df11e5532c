// SPDX-License-Identifier: Apache-2.0
// Traces itself by glibc's mtrace(3), into the file that $MALLOC_TRACE names. Needs libc_malloc_debug
// preloaded. Every kind of line that mtrace writes comes up.
#include <malloc.h>
#include <mcheck.h>
#include <stdlib.h>

int main(void) {
    static void *volatile keep;
    volatile size_t too_large = (size_t)1 << 62;
    mtrace();
    void *first = malloc(7001), *second = calloc(3, 1000), *aligned = NULL;
    first = realloc(first, 100000);
    keep = realloc(second, too_large);
    keep = malloc(too_large);
    keep = malloc(0);
    free(keep);
    if (posix_memalign(&aligned, 256, 7002)) return 1;
    free(aligned);
    free(memalign(64, 7003));
    free(realloc(NULL, 7004));
    keep = realloc(first, 0);
    free(second);
    keep = malloc(7005);
    muntrace();
    return 0;
}
