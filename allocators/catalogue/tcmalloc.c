// gperftools' tcmalloc, the minimal library: without its heap profiler and checker.
#include <dlfcn.h>
#include <stdio.h>

#include "allocator.h"
#include "child_figures.h"

static void version(const struct ht_server *server, char *text, size_t room) {
    int major = 0, minor = 0;
    const char *patch = "";
    const char *(*tc_version)(int *, int *, const char **) = dlsym(RTLD_DEFAULT, "tc_version");
    (void)server;
    if (!tc_version) return;
    tc_version(&major, &minor, &patch);
    snprintf(text, room, "%d.%d%s", major, minor, patch ? patch : "");
}

static const struct ht_statistic statistics[] = {
    {"allocated_bytes", "in blocks that the program has, as size classes round them up"},
    {"heap_bytes", "got from the kernel, whether or not given back since"},
    {"pageheap_free_bytes", "in free spans that are mapped"},
    {"pageheap_unmapped_bytes", "in free spans whose memory was given back"},
    {"central_cache_free_bytes", "in free blocks of the central caches"},
    {"transfer_cache_free_bytes", "in free blocks on their way between caches"},
    {"thread_cache_free_bytes", "in free blocks of the threads' caches"},
    {0}};

static void read_values(const struct ht_server *server, uint64_t *values) {
    static const char *const asked[] = {"generic.current_allocated_bytes",
                                        "generic.heap_size",
                                        "tcmalloc.pageheap_free_bytes",
                                        "tcmalloc.pageheap_unmapped_bytes",
                                        "tcmalloc.central_cache_free_bytes",
                                        "tcmalloc.transfer_cache_free_bytes",
                                        "tcmalloc.current_total_thread_cache_bytes"};
    int (*get)(const char *, size_t *) = (int (*)(const char *, size_t *))server->known;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        size_t value = 0;
        values[i] = get(asked[i], &value) ? value : HT_FIGURE_UNKNOWN;
    }
}

static void purge(const struct ht_server *server) {
    (void)server;
    void (*release)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
    if (release) release();
}

const struct ht_allocator ht_allocator_tcmalloc = {
    .name = "tcmalloc",
    .title = "gperftools' tcmalloc: size classes with thread caches, keeps what was freed",
    .debian = "libgoogle-perftools-dev",
    .library = "tcmalloc_minimal",
    .soname = "libtcmalloc_minimal.so",
    .known_by = "MallocExtension_GetNumericProperty",
    .version = version,
    .statistics = statistics,
    .read = read_values,
    .purge_call = "ReleaseFreeMemory",
    .purge = purge,
};
