#include <mimalloc.h>
#include <stdio.h>

#include "allocator.h"

static void version(char *text, size_t room) {
    int number = mi_version();  // 209 is 2.0.9, 20303 is 2.3.3
    if (number < 1000) snprintf(text, room, "%d.%d.%d", number / 100, number / 10 % 10, number % 10);
    else snprintf(text, room, "%d.%d.%d", number / 10000, number / 100 % 100, number % 100);
}

const struct ht_allocator ht_allocator = {.soname = "libmimalloc.so", .version = version};
