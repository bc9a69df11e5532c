#include "allocator.h"

extern const struct ht_allocator ht_allocator_mimalloc;

const struct ht_allocator ht_allocator_mimalloc3 = {
    .name = "mimalloc3",
    .title = "mimalloc 3.3: shares pages between threads, purges what is unused",
    .soname = "libmimalloc3.so",
    .build_of = &ht_allocator_mimalloc,
    .crate = "libmimalloc-sys",
    .crate_sources = "c_src/mimalloc/v3/src/static.c",
    .crate_includes = "c_src/mimalloc/v3/include c_src/mimalloc/v3/src",
    .crate_flags = "-O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE -DMI_SHARED_LIB "
                   "-DMI_SHARED_LIB_EXPORT -fvisibility=hidden -ftls-model=initial-exec -fno-builtin-malloc",
};
