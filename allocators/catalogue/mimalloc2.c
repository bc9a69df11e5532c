// SPDX-License-Identifier: Apache-2.0
#include "allocator.h"

extern const struct ht_allocator ht_allocator_mimalloc;

const struct ht_allocator ht_allocator_mimalloc2 = {
    HT_BUILD_FACT(name, "mimalloc2"),
    .title = "mimalloc 2: segments by thread, purges unused memory",
    HT_BUILD_FACT(soname, "libmimalloc2.so"),
    .build_of = &ht_allocator_mimalloc,
    HT_BUILD_FACT(crate, "libmimalloc-sys2"),
    HT_BUILD_FACT(build_sources, "c_src/mimalloc/src/static.c"),
    HT_BUILD_FACT(build_flags,
                  "-I<sources>/c_src/mimalloc/include -I<sources>/c_src/mimalloc/src -O3 -DNDEBUG "
                  "-DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB "
                  "-DMI_SHARED_LIB_EXPORT -fvisibility=hidden -ftls-model=initial-exec "
                  "-fno-builtin-malloc"),
};
