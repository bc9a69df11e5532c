#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <string.h>

#include "allocator.h"

static void version(char *text, size_t room) {
    const char *said = NULL;
    size_t bytes = sizeof said;
    if (mallctl("version", &said, &bytes, NULL, 0) == 0 && said) {
        snprintf(text, room, "%.*s", (int)strcspn(said, "-"), said);  // without the commit it was built from
    }
}

const struct ht_allocator ht_allocator = {.soname = "libjemalloc.so", .version = version};
