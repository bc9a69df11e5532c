// gperftools' tcmalloc, the minimal library: without its heap profiler and checker.
#include <gperftools/tcmalloc.h>
#include <stdio.h>

#include "allocator.h"

static void version(char *text, size_t room) {
    int major = 0, minor = 0;
    const char *patch = "";
    tc_version(&major, &minor, &patch);
    snprintf(text, room, "%d.%d%s", major, minor, patch ? patch : "");
}

const struct ht_allocator ht_allocator = {.soname = "libtcmalloc_minimal.so", .version = version};
