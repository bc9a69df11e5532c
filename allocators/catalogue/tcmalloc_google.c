// SPDX-License-Identifier: Apache-2.0
// Google's TCMalloc, which is another program than gperftools' by now.
#include <dlfcn.h>
#include <string.h>

#include "allocator.h"

static const struct ht_statistic statistics[] = {
    {"allocated_bytes", "in the program's blocks, rounded up to size classes"},
    {"heap_bytes", "from the kernel, not returned"},
    {"pageheap_free_bytes", "in free spans that are mapped"},
    {"pageheap_unmapped_bytes", "in free spans whose memory was returned"},
    {"central_cache_free_bytes", "in free blocks of the central caches"},
    {"transfer_cache_free_bytes", "in free blocks on their way between caches"},
    {"cpu_cache_free_bytes", "in free blocks of the processors' caches"},
    {"metadata_bytes", "for its own tables"},
    {"per_cpu_caches_active",
     "1: a cache for each processor; 0: for each thread, because another library registered rseq"},
    {0}};

static void read_values(const struct ht_server *server, uint64_t *values) {
    static const char *const asked[] = {"generic.current_allocated_bytes",
                                        "generic.heap_size",
                                        "tcmalloc.pageheap_free_bytes",
                                        "tcmalloc.pageheap_unmapped_bytes",
                                        "tcmalloc.central_cache_free",
                                        "tcmalloc.transfer_cache_free",
                                        "tcmalloc.cpu_free",
                                        "tcmalloc.metadata_bytes",
                                        "tcmalloc.per_cpu_caches_active"};
    bool (*get)(const char *, size_t, size_t *) = (bool (*)(const char *, size_t, size_t *))server->known;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        size_t value = 0;
        values[i] = get(asked[i], strlen(asked[i]), &value) ? value : HT_FIGURE_UNKNOWN;
    }
}

static void purge(const struct ht_server *server) {
    (void)server;
    void (*release)(size_t) =
        (void (*)(size_t))dlsym(RTLD_DEFAULT, "MallocExtension_Internal_ReleaseMemoryToSystem");
    if (release) release(SIZE_MAX);
}

const struct ht_allocator ht_allocator_tcmalloc_google = {
    HT_BUILD_FACT(name, "tcmalloc-google"),
    .title = "Google's TCMalloc: caches of each processor, keeps huge pages whole",
    HT_BUILD_FACT(soname, "libtcmalloc-google.so"),
    .known_by = "MallocExtension_Internal_GetNumericProperty",
    .has_operators = true,
    HT_BUILD_FACT(crate, "libtcmalloc-sys"),
    HT_BUILD_FACT(build_switch, "EXTRA_TCMALLOC"),
    HT_BUILD_FACT(build_version, "2025-06-16"),
    HT_BUILD_FACT(build_sources, "build.rs"),
    HT_BUILD_FACT(build_flags,
                  "-I<sources>/c_src/abseil-cpp -I<sources>/c_src/tcmalloc -std=c++17 -O2 -DNDEBUG "
                  "-DNOMINMAX -DTCMALLOC_INTERNAL_8K_PAGES -fno-omit-frame-pointer"),
    .version = ht_built_version,
    .statistics = statistics,
    .read = read_values,
    .purge_call = "ReleaseMemoryToSystem",
    .purge = purge,
    .environment = "GLIBC_TUNABLES=glibc.pthread.rseq=0",
    .by_processors =
        "a cache for each, by the number that the kernel writes into the thread (rseq): no other number than the "
        "machine's can be shown there",
    .clock = "the cycle counter",
};
