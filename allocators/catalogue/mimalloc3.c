// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

extern const struct ht_allocator ht_allocator_mimalloc;

const struct ht_allocator ht_allocator_mimalloc3 = {
    HT_BUILD_FACT(name, "mimalloc3"),
    .title = "mimalloc 3: shares pages between threads, purges unused memory",
    HT_BUILD_FACT(soname, "libmimalloc3.so"),
    .build_of = &ht_allocator_mimalloc,
    HT_BUILD_FACT(crate, "libmimalloc-sys2"),
    HT_BUILD_FACT(build_sources, "c_src/mimalloc3/src/static.c"),
    HT_BUILD_FACT(build_flags,
                  "-I<sources>/c_src/mimalloc3/include -I<sources>/c_src/mimalloc3/src -O3 -DNDEBUG "
                  "-DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB "
                  "-DMI_SHARED_LIB_EXPORT -fvisibility=hidden -ftls-model=initial-exec "
                  "-fno-builtin-malloc"),
};
