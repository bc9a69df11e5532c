// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "allocator.h"

static const struct ht_statistic statistics[] = {{"used_bytes", "in chunks in use, even partly filled"},
                                                 {"used_peak_bytes", "its highest value so far"},
                                                 {0}};

// A C++ function, which has its argument's type in its name.
static void read_values(const struct ht_server *server, uint64_t *values) {
    struct {
        size_t current, peak;
    } info;
    void *asked = dlsym(RTLD_DEFAULT, "_Z18get_malloc_info_v1P14malloc_info_v1");
    (void)server;
    values[0] = values[1] = HT_FIGURE_UNKNOWN;
    if (!asked) return;
    ((void (*)(void *))asked)(&info);
    values[0] = info.current;
    values[1] = info.peak;
}

static const struct ht_fault faults[] = {
    {.help = "It returns memory by MADV_FREE, which stays resident until the kernel needs it: the LazyFree "
             "part of its RSS is not in use."},
    {.unsimulated = true, .help = "It aborts under valgrind."},
    {0}};

const struct ht_allocator ht_allocator_snmalloc = {
    HT_BUILD_FACT(name, "snmalloc"),
    .title = "snmalloc: frees of other threads' blocks are messages to them",
    HT_BUILD_FACT(soname, "libsnmalloc.so"),
    .known_by = "__malloc_end_pointer",
    .signs = "sn_malloc*|sn_rust_*|_ZN8snmalloc*",
    HT_BUILD_FACT(crate, "snmalloc-sys"),
    HT_BUILD_FACT(build_version, "0.7.6"),
    HT_BUILD_FACT(build_sources,
                  "upstream/src/snmalloc/override/malloc.cc upstream/src/snmalloc/override/new.cc "
                  "upstream/src/snmalloc/override/malloc-extensions.cc"),
    HT_BUILD_FACT(build_flags,
                  "-I<sources>/upstream/src -std=c++20 -include stddef.h -O3 -DNDEBUG -mcx16 -mprfchw "
                  "-fno-rtti -fomit-frame-pointer -ffunction-sections -ftls-model=initial-exec "
                  "-DSNMALLOC_USE_WAIT_ON_ADDRESS=1 -DSNMALLOC_HAS_LINUX_FUTEX_H "
                  "-DSNMALLOC_HAS_LINUX_RANDOM_H -DSNMALLOC_PLATFORM_HAS_GETENTROPY "
                  "-DSNMALLOC_PTHREAD_ATFORK_WORKS -DSNMALLOC_USE_CXX11_THREAD_ATEXIT_DIRECT "
                  "-DSNMALLOC_CHECK_LOADS=false -DSNMALLOC_PAGEID=false"),
    HT_BUILD_FACT(build_link_flags, "-static-libstdc++ -Wl,--exclude-libs,ALL"),
    .version = ht_built_version,
    .statistics = statistics,
    .read = read_values,
    .faults = faults,
};
