// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

const struct ht_allocator ht_allocator_bump = {
    HT_BUILD_FACT(name, "bump"),
    .title = "a bump pointer: returns the next bytes, frees nothing",
    HT_BUILD_FACT(soname, "libheaptape_bump.so"),
    .known_by = "ht_bump_serves",
    .is_floor = true,
    .version = ht_own_version,
};
