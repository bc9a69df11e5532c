// SPDX-License-Identifier: Apache-2.0
// gperftools' tcmalloc, the minimal library: without its heap profiler and checker.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "allocator.h"

static void version(const struct ht_server *server, char *text, size_t room) {
    int major = 0, minor = 0;
    const char *patch = "";
    const char *(*tc_version)(int *, int *, const char **) =
        dlsym(RTLD_DEFAULT, server->kind->version_symbol);
    if (!tc_version) return;
    tc_version(&major, &minor, &patch);
    if (!patch || !strcmp(patch, ".")) patch = "";  // what its CMakeLists.txt makes of no patch
    snprintf(text, room, "%d.%d%s", major, minor, patch);
}

static const struct ht_statistic statistics[] = {
    {"allocated_bytes", "in the program's blocks, rounded up to size classes"},
    {"heap_bytes", "from the kernel, returned or not"},
    {"pageheap_free_bytes", "in free spans that are mapped"},
    {"pageheap_unmapped_bytes", "in free spans whose memory was returned"},
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

// Environment variables whose values it does not report cannot be read back.
static enum ht_knob_state read_knob(const struct ht_server *server, const struct ht_knob *knob, char *text,
                                    size_t room) {
    static const struct {
        const char *name, *property;
    } properties[] = {{"max_total_thread_cache_bytes", "tcmalloc.max_total_thread_cache_bytes"},
                      {"aggressive_decommit", "tcmalloc.aggressive_memory_decommit"},
                      {"heap_limit_mb", "tcmalloc.heap_limit_mb"}};
    int (*get)(const char *, size_t *) = (int (*)(const char *, size_t *))server->known;
    for (size_t i = 0; i < sizeof properties / sizeof *properties; i++) {
        size_t value = 0;
        if (strcmp(knob->name, properties[i].name)) continue;
        if (!get(properties[i].property, &value)) return HT_KNOB_MISSING;
        snprintf(text, room, "%zu", value);
        return HT_KNOB_REPORTED;
    }
    return HT_KNOB_UNREPORTED;
}

static const struct ht_knob knobs[] = {
    {.name = "max_total_thread_cache_bytes",
     .range = {512 << 10, 1 << 30},
     .standard = "33554432",
     .help = "bytes in the caches of all threads together"},
    {.name = "transfer_num_obj",
     .range = {1, 128},
     .standard = "32",
     .help = "greatest number of blocks moved between thread and central caches at a time"},
    {.name = "aggressive_decommit", .standard = "0", .help = "free spans are returned at once"},
    {.name = "release_rate",
     .range = {0, 1000},
     .standard = "1",
     .search = {0, 100},
     .help = "rate at which free spans are returned as others become free; 0: never"},
    {.name = "disable_memory_release",
     .standard = "0",
     .help = "nothing is ever returned, not even on request"},
    {.name = "heap_limit_mb",
     .range = {0, 1 << 24},
     .standard = "0",
     .unsearched = true,
     .help = "MiB of heap above which calls fail; 0: no limit"},
    {.name = "skip_sbrk", .standard = "0", .help = "memory comes from mmap only"},
    {0}};

const struct ht_allocator ht_allocator_tcmalloc = {
    HT_BUILD_FACT(name, "tcmalloc"),
    .title = "gperftools' tcmalloc: size classes with thread caches, keeps freed memory",
    HT_BUILD_FACT(debian, "libgoogle-perftools-dev"),
    .runtimes = (const char *const[]){"libtcmalloc-minimal4", NULL},
    HT_BUILD_FACT(library, "tcmalloc_minimal"),
    HT_BUILD_FACT(soname, "libtcmalloc_minimal.so"),
    .known_by = "MallocExtension_GetNumericProperty",
    .sized_free = "tc_free_sized",
    .has_operators = true,
    HT_BUILD_FACT(version_symbol, "tc_version"),
    .version_text = "gperftools #",
    HT_BUILD_FACT(version_type, "text"),
    HT_BUILD_FACT(variables, "TCMALLOC_*"),
    .signs = "tc_malloc*|tc_free*|tc_new*|tc_delete*|TCMallocInternal*|MallocExtension_*|_ZN8tcmalloc*",
    .message = "tcmalloc: allocation failed",
    .version = version,
    .statistics = statistics,
    .read = read_values,
    .obeys = "MallocExtension_ReleaseFreeMemory|MallocExtension_ReleaseToSystem",
    .purge_call = "ReleaseFreeMemory",
    .purge = purge,
    .knobs = knobs,
    .knobs_prefix = "TCMALLOC_",
    .passed = "TCMALLOC_SKIP_MMAP",
    .read_knob = read_knob,
    .by_processors = "only whether threads that wait for a lock spin: no memory depends on it",
};
