// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "allocator.h"
#include "process_output.h"

// The options of all versions of mimalloc, which several kinds have in common.
static const struct ht_knob knobs[] = {
    {.name = "purge_delay",
     .range = {-1, 3600000},
     .standard = "10; 2500 in 3.0, 1000 since 3.1",
     .since = "2.1",
     .search = {-1, 100000},
     .help = "ms after which unused memory is returned; 0: at once; -1: never"},
    {.name = "decommit_delay",
     .range = {0, 3600000},
     .standard = "25",
     .last = "2.0.99",
     .search = {0, 100000},
     .help = "ms after which unused memory of segments is returned"},
    {.name = "segment_decommit_delay",
     .range = {0, 3600000},
     .standard = "500",
     .last = "2.0.99",
     .search = {0, 100000},
     .help = "ms after which unused segments are returned"},
    {.name = "purge_decommits",
     .standard = "1",
     .since = "2.1",
     .help = "memory is returned at once (MADV_DONTNEED), not only when the kernel needs it"},
    {.name = "allow_decommit", .standard = "1", .last = "2.0.99", .help = "memory is returned at all"},
    {.name = "page_reset",
     .standard = "0",
     .last = "2.0.99",
     .help = "pages without a block are returned at once"},
    {.name = "abandoned_page_decommit",
     .standard = "0",
     .last = "2.0.99",
     .help = "free pages of ended threads are returned at once"},
    {.name = "abandoned_page_purge",
     .standard = "0",
     .since = "2.1",
     .last = "2.99",
     .help = "free pages of ended threads are returned at once"},
    {.name = "eager_commit",
     .standard = "1",
     .last = "2.99",
     .help = "segments are made usable as a whole, not page by page"},
    {.name = "eager_commit_delay",
     .range = {0, 1000000},
     .standard = "1",
     .last = "2.99",
     .search = {0, 64},
     .help = "first segments of each thread that are made usable page by page"},
    {.name = "arena_eager_commit",
     .range = {0, 2},
     .standard = "2",
     .since = "2.1",
     .help = "arenas are made usable as a whole; 2: if the kernel overcommits"},
    {.name = "arena_reserve",
     .range = {0, INT64_C(1) << 30},
     .standard = "1048576",
     .ending = "K",
     .since = "2.1",
     .search = {1024, 16 << 20},
     .help = "KiB of address space reserved at a time"},
    {.name = "arena_purge_mult",
     .range = {0, 1000000},
     .standard = "10; 1 since 3, 4 since 3.5",
     .since = "2.1",
     .search = {0, 1000},
     .help = "factor of purge_delay for arenas"},
    {.name = "disallow_arena_alloc",
     .standard = "0",
     .since = "2.2",
     .help = "memory comes from the kernel directly, not out of arenas"},
    {.name = "large_os_pages",
     .standard = "0",
     .last = "2.0.99",
     .unsearched = true,
     .help = "huge pages of the kernel's pool, if it has any"},
    {.name = "allow_large_os_pages",
     .range = {0, 2},
     .standard = "0; 2 in 3.0",
     .since = "2.1",
     .unsearched = true,
     .help = "huge pages of the kernel's pool, if it has any"},
    {.name = "allow_thp",
     .range = {0, 2},
     .standard = "1; 2 since 3.6",
     .since = "2.2",
     .help = "transparent huge pages; 0: none in the whole process; 2: what is returned is whole ones"},
    {.name = "reserve_huge_os_pages",
     .range = {0, INT64_C(1) << 20},
     .standard = "0",
     .unsearched = true,
     .help = "pages of 1 GiB, reserved at the start"},
    {.name = "reserve_os_memory",
     .range = {0, INT64_C(1) << 40},
     .standard = "0",
     .ending = "K",
     .unsearched = true,
     .help = "KiB, reserved at the start"},
    {.name = "limit_os_alloc",
     .standard = "0",
     .last = "2.0.99",
     .unsearched = true,
     .help = "only reserved memory is used"},
    {.name = "disallow_os_alloc",
     .standard = "0",
     .since = "2.1",
     .unsearched = true,
     .help = "only reserved memory is used"},
    {.name = "use_numa_nodes",
     .range = {0, 1024},
     .standard = "0",
     .unsearched = true,
     .help = "NUMA nodes in use; 0: all"},
    {.name = "max_segment_reclaim",
     .range = {0, 100},
     .standard = "8; 10 since 2.2",
     .last = "2.99",
     .help = "segments of ended threads taken over at a time; since 2.2 percent of them"},
    {.name = "target_segments_per_thread",
     .range = {0, 1000000},
     .standard = "0",
     .since = "2.2",
     .last = "2.99",
     .search = {0, 1024},
     .help = "segments above which a thread passes some to others; 0: no limit"},
    {.name = "abandoned_reclaim_on_free",
     .standard = "0",
     .since = "2.2",
     .last = "2.99",
     .help = "a thread that frees a block of an ended thread takes over its segment"},
    {.name = "reclaim_on_free",
     .standard = "1",
     .since = "3",
     .last = "3.0.99",
     .help = "a thread that frees a block of an ended thread takes over its page"},
    {.name = "page_reclaim_on_free",
     .range = {-1, 1},
     .standard = "0; 1 since 3.6",
     .since = "3.1",
     .help = "a thread that frees a block of an ended thread takes over its page; 1: any thread's; -1: "
             "never"},
    {.name = "page_full_retain",
     .range = {-1, 1000000},
     .standard = "2",
     .since = "3",
     .search = {-1, 1000},
     .help = "full pages kept in a size's list"},
    {.name = "page_max_candidates",
     .range = {1, 1000000},
     .standard = "4",
     .since = "3",
     .search = {1, 64},
     .help = "pages tried for the next block"},
    {.name = "page_commit_on_demand",
     .range = {0, 2},
     .standard = "0; 2 in 3.0",
     .since = "3",
     .help = "pages are made usable as blocks are taken from them"},
    {.name = "minimal_purge_size",
     .range = {0, INT64_C(1) << 30},
     .standard = "0",
     .ending = "K",
     .since = "3.2",
     .last = "3.5.99",
     .search = {0, 65536},
     .help = "least KiB that are returned; 0: 64, or 2048 with transparent huge pages"},
    {.name = "arena_purge_min_size",
     .range = {0, INT64_C(1) << 30},
     .standard = "0",
     .ending = "K",
     .since = "3.6",
     .search = {0, 65536},
     .help = "least KiB that are returned; 0: 64, or 2048 with transparent huge pages"},
    {.name = "arena_purge_immediate_size",
     .range = {0, INT64_C(1) << 30},
     .standard = "32768",
     .ending = "K",
     .since = "3.6",
     .search = {0, 1 << 20},
     .help = "KiB from which memory is returned at once, whatever purge_delay is"},
    {.name = "page_max_reclaim",
     .range = {-1, 1000000},
     .standard = "-1",
     .since = "3.1",
     .search = {-1, 1000},
     .help = "pages of a size that a thread has and then takes over no more of its own; -1: no limit"},
    {.name = "page_cross_thread_max_reclaim",
     .range = {-1, 1000000},
     .standard = "32",
     .since = "3.1",
     .search = {-1, 1000},
     .help = "the same for pages of other threads"},
    {.name = "generic_collect",
     .range = {1, 1000000000},
     .standard = "10000",
     .since = "2.2",
     .search = {100, 1000000},
     .help = "slow calls after which a thread's free memory is collected"},
    {0}};

static const char *listed(void) {
    static char text[16384];
    static bool asked;
    // Without its two arguments a measured child only says that it is started by others.
    const char *const *itself = asked ? NULL : ht_process_own_command(2);
    if (itself) ht_process_output(itself, "MIMALLOC_VERBOSE=1", text, sizeof text);
    asked = true;
    return text;
}

// By what the library itself lists when it is loaded with MIMALLOC_VERBOSE=1: numbers of options mean
// something else in every version, and a variable that a version does not know is ignored without a word.
static enum ht_knob_state read_knob(const struct ht_server *server, const struct ht_knob *knob, char *text,
                                    size_t room) {
    char option[64], version[32] = "";
    long value;
    // 3.0 lists what its forerunner had and no longer reads it.
    server->kind->version(server, version, sizeof version);
    if (*version && !ht_version_within(version, knob->since, knob->last)) return HT_KNOB_MISSING;
    snprintf(option, sizeof option, "option '%s': ", knob->name);
    const char *at = strstr(listed(), option);
    if (at && sscanf(at + strlen(option), "%ld", &value) == 1) {
        snprintf(text, room, "%ld", value);
        return HT_KNOB_REPORTED;
    }
    return strstr(listed(), "option '") ? HT_KNOB_MISSING : HT_KNOB_UNREPORTED;
}

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
    .knobs = knobs,
    .knobs_prefix = "MIMALLOC_",
    .passed =
        "MIMALLOC_RESET_*|MIMALLOC_EAGER_REGION_COMMIT|MIMALLOC_ABANDONED_PAGE_RESET|MIMALLOC_SEGMENT_*|MIMALLOC_OS_TAG",
    .read_knob = read_knob,
    .by_processors = "nothing in 2.0: it divides memory by thread and NUMA node",
    .clock = "clock_gettime",
    .purges_soon = true,
    .faults = faults,
};
