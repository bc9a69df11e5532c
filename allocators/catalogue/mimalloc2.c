#include "allocator.h"

extern const struct ht_allocator ht_allocator_mimalloc;

const struct ht_allocator ht_allocator_mimalloc2 = {
    .name = "mimalloc2",
    .title = "mimalloc 2.3: segments by thread, purges what is unused",
    .soname = "libmimalloc2.so",
    .build_of = &ht_allocator_mimalloc,
    .crate = "libmimalloc-sys",
    .crate_sources = "c_src/mimalloc/v2/src/static.c",
    .crate_includes = "c_src/mimalloc/v2/include c_src/mimalloc/v2/src",
    .crate_flags = "-O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB "
                   "-DMI_SHARED_LIB_EXPORT -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc",
};
