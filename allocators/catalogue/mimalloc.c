// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <stdio.h>

#include "allocator.h"
#include "mimalloc_options.h"

static void version(const struct ht_server *server, char *text, size_t room) {
    int (*mi_version)(void) = dlsym(RTLD_DEFAULT, server->kind->version_symbol);
    if (!mi_version) return;
    char words[HT_VERSION_NUMBER_BYTES];
    snprintf(text, room, "%s", ht_version_of_number((unsigned)mi_version(), words));
}

static const struct ht_statistic statistics[] = {
    {"committed_bytes", "committed"}, {"committed_peak_bytes", "its highest value so far"}, {0}};

// Its statistics of blocks are kept by debug builds only, and what it says of residency is the kernel's.
static void read_values(const struct ht_server *server, uint64_t *values) {
    typedef void info_function(size_t *elapsed, size_t *user, size_t *system, size_t *rss, size_t *rss_peak,
                               size_t *commit, size_t *commit_peak, size_t *faults);
    size_t commit = 0, peak = 0;
    ((info_function *)server->known)(NULL, NULL, NULL, NULL, NULL, &commit, &peak, NULL);
    values[0] = commit;
    values[1] = peak;
}

static void purge(const struct ht_server *server) {
    (void)server;
    void (*collect)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "mi_collect");
    if (collect) collect(true);
}

static const struct ht_fault faults[] = {
    {.since = "2.0.9",
     .last = "2.0.9",
     .alignment_lowest = 256,
     .alignment_highest = 1024,
     .help = "Some blocks of alignments from 256 to 1024 are aligned to less."},
    {.since = "3.0.1",
     .last = "3.0.1",
     .corrupts = true,
     .help = "Blocks of alignments from 256 to 4096 overlap others (Debian 13 has it)."},
    {0}};

const struct ht_allocator ht_allocator_mimalloc = {
    HT_BUILD_FACT(name, "mimalloc"),
    .title = "mimalloc: free lists by page, of each thread",
    HT_BUILD_FACT(debian, "libmimalloc-dev"),
    .runtimes = (const char *const[]){"libmimalloc2.0", "libmimalloc3", NULL},
    HT_BUILD_FACT(library, "mimalloc"),
    HT_BUILD_FACT(soname, "libmimalloc.so"),
    .known_by = "mi_process_info",
    .sized_free = "mi_free_size",
    .sized_free_aligned = "mi_free_size_aligned",
    .has_operators = true,
    HT_BUILD_FACT(version_symbol, "mi_version"),
    HT_BUILD_FACT(version_type, "number"),
    HT_BUILD_FACT(variables, "MIMALLOC_*"),
    // Not all that begin with mi_ and _mi_: MyISAM has such functions, too.
    .signs = "mi_malloc*|mi_zalloc*|mi_calloc*|mi_realloc*|mi_rezalloc*|mi_free*|mi_heap_*|mi_theap_*|"
             "_mi_malloc_*|_mi_heap_*|_mi_segment_*|_mi_arena*",
    .message = "mimalloc: warning: ",
    .version = version,
    .statistics = statistics,
    .read = read_values,
    .obeys = "mi_collect",
    .purge_call = "mi_collect(true)",
    .purge = purge,
    .knobs = ht_mimalloc_knobs,
    .knobs_prefix = "MIMALLOC_",
    .passed =
        "MIMALLOC_RESET_*|MIMALLOC_EAGER_REGION_COMMIT|MIMALLOC_ABANDONED_PAGE_RESET|MIMALLOC_SEGMENT_*|MIMALLOC_OS_TAG",
    .read_knob = ht_mimalloc_read_knob,
    .by_processors = "nothing in 2.0: it divides memory by thread and NUMA node",
    .clock = "clock_gettime",
    .purges_soon = true,
    .faults = faults,
};
