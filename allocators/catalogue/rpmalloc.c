// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include "allocator.h"

static const struct ht_statistic statistics[] = {
    {"cached_bytes", "in free spans of the caches that all threads share"}, {0}};

// All else is counted by builds for that only.
static void read_values(const struct ht_server *server, uint64_t *values) {
    struct {
        size_t mapped, mapped_peak, cached, huge_alloc, huge_alloc_peak, mapped_total, unmapped_total;
    } caches;
    void (*ask)(void *) = (void (*)(void *))server->known;
    ask(&caches);
    values[0] = caches.cached;
}

static const struct ht_fault faults[] = {
    {.alignment_lowest = 64 << 10,
     .alignment_highest = UINT64_C(1) << 62,
     .help = "Alignments of 64 KiB and more, the size of its spans, fail."},
    {.help = "A request of nearly 2^64 bytes gets a small block, not NULL."},
    {0}};

const struct ht_allocator ht_allocator_rpmalloc = {
    HT_BUILD_FACT(name, "rpmalloc"),
    .title = "rpmalloc: spans of 64 KiB in caches of each thread, without locks",
    HT_BUILD_FACT(soname, "librpmalloc.so"),
    .known_by = "rpmalloc_global_statistics",
    .signs = "rpmalloc*|_rpmalloc_*|rpaligned_*|rpfree",
    HT_BUILD_FACT(crate, "rpmalloc-sys"),
    HT_BUILD_FACT(build_version, "1.4.3"),
    HT_BUILD_FACT(build_sources, "rpmalloc/rpmalloc/rpmalloc.c"),
    HT_BUILD_FACT(build_flags, "-I<sources>/rpmalloc/rpmalloc -std=gnu11 -O3 -DNDEBUG -fomit-frame-pointer "
                               "-D_GNU_SOURCE=1 -DENABLE_PRELOAD=1 -DENABLE_OVERRIDE=1"),
    .version = ht_built_version,
    .statistics = statistics,
    .read = read_values,
    .faults = faults,
};
