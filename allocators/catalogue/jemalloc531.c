// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

extern const struct ht_allocator ht_allocator_jemalloc;

const struct ht_allocator ht_allocator_jemalloc531 = {
    HT_BUILD_FACT(name, "jemalloc531"),
    .title = "jemalloc 5.3.1: arenas by processor, returns memory with age",
    HT_BUILD_FACT(soname, "libjemalloc531.so.2"),
    .build_of = &ht_allocator_jemalloc,
    HT_BUILD_FACT(crate, "tikv-jemalloc-sys"),
    HT_BUILD_FACT(build_switch, "EXTRA_JEMALLOC"),
    HT_BUILD_FACT(build_configure, "jemalloc configure/configure build_lib_shared"),
    HT_BUILD_FACT(build_flags,
                  "--with-version=5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8 --disable-doc "
                  "--disable-static --with-install-suffix=531"),
};
