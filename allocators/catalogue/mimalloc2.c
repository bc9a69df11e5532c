#include "allocator.h"

extern const struct ht_allocator ht_allocator_mimalloc;

const struct ht_allocator ht_allocator_mimalloc2 = {
    HT_TOLD(name, "mimalloc2"),
    .title = "mimalloc 2.3: segments by thread, purges what is unused",
    HT_TOLD(soname, "libmimalloc2.so"),
    .build_of = &ht_allocator_mimalloc,
    HT_TOLD(crate, "libmimalloc-sys"),
    HT_TOLD(crate_sources, "c_src/mimalloc/v2/src/static.c"),
    HT_TOLD(crate_includes, "c_src/mimalloc/v2/include c_src/mimalloc/v2/src"),
    HT_TOLD(crate_flags, "-O3 -DNDEBUG -DMI_BUILD_RELEASE -DMI_DEBUG=0 -DMI_MALLOC_OVERRIDE "
                         "-DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -fvisibility=hidden "
                         "-ftls-model=initial-exec -fno-builtin-malloc"),
};
