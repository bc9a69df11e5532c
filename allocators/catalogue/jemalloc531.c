#include "allocator.h"

extern const struct ht_allocator ht_allocator_jemalloc;

const struct ht_allocator ht_allocator_jemalloc531 = {
    .name = "jemalloc531",
    .title = "jemalloc 5.3.1: the release after Debian's",
    .soname = "libjemalloc531.so.2",
    .build_of = &ht_allocator_jemalloc,
    .crate = "tikv-jemalloc-sys",
    .crate_switch = "EXTRA_JEMALLOC",
    .crate_configure = "jemalloc configure/configure",
    .crate_flags = "--with-version=5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8 --disable-doc "
                   "--disable-static --with-install-suffix=531",
};
