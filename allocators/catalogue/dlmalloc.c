// SPDX-License-Identifier: Apache-2.0
// Doug Lea's malloc, from the copy that libffi has for its closures.
#include <dlfcn.h>

#include "allocator.h"

static const struct ht_statistic statistics[] = {{"footprint_bytes", "from the kernel, not returned"},
                                                 {"footprint_peak_bytes", "its highest value so far"},
                                                 {0}};

static void read_values(const struct ht_server *server, uint64_t *values) {
    size_t (*peak)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "malloc_max_footprint");
    values[0] = ((size_t (*)(void))server->known)();
    values[1] = peak ? peak() : HT_FIGURE_UNKNOWN;
}

const struct ht_allocator ht_allocator_dlmalloc = {
    HT_BUILD_FACT(name, "dlmalloc"),
    .title = "Doug Lea's malloc under one lock, from which ptmalloc3 and nedmalloc descend",
    HT_BUILD_FACT(soname, "libdlmalloc.so"),
    .known_by = "malloc_footprint",
    .signs = "dlmalloc",
    HT_BUILD_FACT(crate, "libffi-sys"),
    HT_BUILD_FACT(build_version, "2.8.6"),
    HT_BUILD_FACT(build_sources, "libffi/src/dlmalloc.c"),
    HT_BUILD_FACT(build_flags, "-O3 -DNDEBUG -D_GNU_SOURCE -DUSE_LOCKS=1 -fno-builtin-malloc"),
    .version = ht_built_version,
    .statistics = statistics,
    .read = read_values,
    .obeys = "mallopt|malloc_trim",
    .purge_call = "malloc_trim(0)",
    .purge = ht_trim,
};
