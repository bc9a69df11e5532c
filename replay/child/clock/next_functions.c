// SPDX-License-Identifier: Apache-2.0
#include "next_functions.h"

#include <dlfcn.h>
#include <stddef.h>

struct ht_next ht_next;

static void look_up(void) {
#define LOOK_UP(NAME) ht_next.NAME = (__typeof__(&NAME))dlsym(RTLD_NEXT, #NAME);
    HT_NEXT_FUNCTIONS(LOOK_UP)
}

// An executable's alone can be so early.
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(void) = look_up;
