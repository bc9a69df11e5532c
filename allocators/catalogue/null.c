// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

const struct ht_allocator ht_allocator_null = {
    HT_BUILD_FACT(name, "null"),
    .title = "no allocator: returns addresses only, which measures the harness",
    HT_BUILD_FACT(soname, "libheaptape_null.so"),
    .known_by = "ht_null_replaying",
    .is_floor = true,
    .is_null = true,
    .version = ht_own_version,
};
