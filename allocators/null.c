#include "null_allocator.h"

#include <stdio.h>

#include "allocator.h"

static void version(char *text, size_t room) { snprintf(text, room, "%s", HEAPTAPE_VERSION); }

const struct ht_allocator ht_allocator = {
    .soname = "libheaptape_null.so",
    .is_null = true,
    .version = version,
    .replaying = ht_null_replaying,
};
