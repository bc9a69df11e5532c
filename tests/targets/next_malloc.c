// SPDX-License-Identifier: Apache-2.0
// A program that asks the loader for malloc itself, in every way there is, and uses what it gets.
// Usage: next_malloc COUNTS
#include <dlfcn.h>

#include "target_support.h"

enum { SIZE_NEXT = 7650, SIZE_DEFAULT, SIZE_HANDLE };

static void use(void *library, size_t size) {
    void *(*get)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    void (*put)(void *) = (void (*)(void *))dlsym(library, "free");
    if (!get || !put) target_fail("no malloc");
    for (int i = 0; i < 500; i++) {
        char *volatile block = get(size);
        if (!block) target_fail("malloc failed");
        block[0] = 1;
        tally_count(size);
        put(block);
    }
}

int main(int argc, char **argv) {
    tally_open(argc > 1 ? argv[1] : NULL);
    use(RTLD_NEXT, SIZE_NEXT);
    use(RTLD_DEFAULT, SIZE_DEFAULT);
    use(dlopen(NULL, RTLD_NOW), SIZE_HANDLE);
    return 102;
}
