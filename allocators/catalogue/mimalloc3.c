#include "allocator.h"

extern const struct ht_allocator ht_allocator_mimalloc;

const struct ht_allocator ht_allocator_mimalloc3 = {
    HT_TOLD(name, "mimalloc3"),
    .title = "mimalloc 3.3: shares pages between threads, purges what is unused",
    HT_TOLD(soname, "libmimalloc3.so"),
    .build_of = &ht_allocator_mimalloc,
    HT_TOLD(crate, "libmimalloc-sys"),
    HT_TOLD(crate_sources, "c_src/mimalloc/v3/src/static.c"),
    HT_TOLD(crate_includes, "c_src/mimalloc/v3/include c_src/mimalloc/v3/src"),
    HT_TOLD(crate_flags, "-O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE "
                         "-DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -fvisibility=hidden "
                         "-ftls-model=initial-exec -fno-builtin-malloc"),
};
