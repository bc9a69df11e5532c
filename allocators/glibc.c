// The C library's own malloc; also what a library given by its path is preloaded into.
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"

static const char soname[] = "libc.so.6";

static bool served_by_libc(void) {
    Dl_info found = {0};
    if (!dladdr((void *)malloc, &found) || !found.dli_fname) return false;
    const char *slash = strrchr(found.dli_fname, '/');
    return !strcmp(slash ? slash + 1 : found.dli_fname, soname);
}

// A preloaded library of a kind that we know says its version in its own way.
static void version_of_preloaded(char *text, size_t room) {
    int (*mallctl)(const char *, void *, size_t *, void *, size_t) = dlsym(RTLD_DEFAULT, "mallctl");
    const char *(*tc_version)(int *, int *, const char **) = dlsym(RTLD_DEFAULT, "tc_version");
    int (*mi_version)(void) = dlsym(RTLD_DEFAULT, "mi_version");
    const char *jemalloc = NULL;
    size_t bytes = sizeof jemalloc;
    if (mallctl && mallctl("version", &jemalloc, &bytes, NULL, 0) == 0) {
        snprintf(text, room, "%.*s", (int)strcspn(jemalloc, "-"), jemalloc);  // without the commit
    } else if (tc_version) {
        snprintf(text, room, "%s", tc_version(NULL, NULL, NULL));
    } else if (mi_version) {
        snprintf(text, room, "%d.%d.%d", mi_version() / 100, mi_version() / 10 % 10, mi_version() % 10);
    }
}

static void version(char *text, size_t room) {
    if (served_by_libc()) snprintf(text, room, "%s", gnu_get_libc_version());
    else version_of_preloaded(text, room);
}

const struct ht_allocator ht_allocator = {.soname = soname, .version = version};
