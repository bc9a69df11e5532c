// SPDX-License-Identifier: Apache-2.0
// Another preloaded library that hooks malloc and passes it on, as profilers and checkers do; at the end it
// writes to stderr whether it saw anything.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static unsigned long mallocs, frees;

__attribute__((visibility("default"))) void *malloc(size_t size) {
    if (!next_malloc) next_malloc = dlsym(RTLD_NEXT, "malloc");
    mallocs++;
    return next_malloc(size);
}

__attribute__((visibility("default"))) void free(void *block) {
    if (!next_free) next_free = dlsym(RTLD_NEXT, "free");
    frees += block != NULL;
    next_free(block);
}

__attribute__((destructor)) static void say(void) {
    const char *text =
        mallocs > 1000 && frees > 1000 ? "other hook: many calls\n" : "other hook: few calls\n";
    if (write(2, text, strlen(text)) < 0) return;
}
