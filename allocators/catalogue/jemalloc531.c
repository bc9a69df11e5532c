#include "allocator.h"

extern const struct ht_allocator ht_allocator_jemalloc;

const struct ht_allocator ht_allocator_jemalloc531 = {
    HT_TOLD(name, "jemalloc531"),
    .title = "jemalloc 5.3.1: the release after Debian's",
    HT_TOLD(soname, "libjemalloc531.so.2"),
    .build_of = &ht_allocator_jemalloc,
    HT_TOLD(crate, "tikv-jemalloc-sys"),
    HT_TOLD(crate_switch, "EXTRA_JEMALLOC"),
    HT_TOLD(crate_configure, "jemalloc configure/configure"),
    HT_TOLD(crate_flags, "--with-version=5.3.1-0-g81034ce1f1373e37dc865038e1bc8eeecf559ce8 --disable-doc "
                         "--disable-static --with-install-suffix=531"),
};
