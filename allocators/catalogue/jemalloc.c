// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "allocator.h"

typedef int mallctl_function(const char *name, void *value, size_t *value_bytes, void *set, size_t set_bytes);

enum { ARENAS_MAX = 4094 };  // as far as MALLOCX_ARENA() counts; above it opt.narenas is not what is made

static mallctl_function *mallctl_of(const struct ht_server *server) {
    return (mallctl_function *)server->known;
}

static void version(const struct ht_server *server, char *text, size_t room) {
    const char *said = NULL;
    size_t bytes = sizeof said;
    if (mallctl_of(server)("version", &said, &bytes, NULL, 0) == 0 && said) {
        snprintf(text, room, "%.*s", (int)strcspn(said, "-"), said);  // without the commit it was built from
    }
}

static const struct ht_statistic statistics[] = {
    {"allocated_bytes", "in the program's blocks, rounded up to size classes"},
    {"active_bytes", "in pages that hold such blocks"},
    {"metadata_bytes", "for its own tables"},
    {"resident_bytes", "resident by its own count: active, metadata and unused dirty pages"},
    {"mapped_bytes", "in extents that are mapped and may be used"},
    {"retained_bytes", "of reserved address space without memory"},
    {0}};

static void read_values(const struct ht_server *server, uint64_t *values) {
    static const char *const asked[] = {"stats.allocated", "stats.active", "stats.metadata",
                                        "stats.resident",  "stats.mapped", "stats.retained"};
    mallctl_function *mallctl = mallctl_of(server);
    uint64_t epoch = 1;  // figures are as of the last epoch
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        size_t value = 0, bytes = sizeof value;
        values[i] = mallctl(asked[i], &value, &bytes, NULL, 0) ? HT_FIGURE_UNKNOWN : value;
    }
}

static void purge(const struct ht_server *server) {
    mallctl_of(server)("arena.4096.purge", NULL, NULL, NULL, 0);  // MALLCTL_ARENAS_ALL
}

// mallctl reports the size of the value, the only sign of its type.
static enum ht_knob_state read_knob(const struct ht_server *server, const struct ht_knob *knob, char *text,
                                    size_t room) {
    union {
        bool yes;
        unsigned number;
        int64_t whole;
        const char *word;
    } value = {0};
    char name[64];
    size_t bytes = 0;
    mallctl_function *mallctl = mallctl_of(server);
    snprintf(name, sizeof name, "opt.%s", knob->spelled ? knob->spelled : knob->name);
    size_t narrow[] = {sizeof value.yes, sizeof value.number, sizeof value.whole};
    for (size_t i = 0; i < sizeof narrow / sizeof *narrow && !bytes; i++) {
        size_t asked = narrow[i];
        if (mallctl(name, &value, &asked, NULL, 0) == 0) bytes = narrow[i];
    }
    if (!bytes) return HT_KNOB_MISSING;
    // A word in one release may be yes or no in another: thp of 4.5.
    if (knob->words && bytes == sizeof value.word) snprintf(text, room, "%s", value.word ? value.word : "");
    else if (bytes == sizeof value.yes) snprintf(text, room, "%d", value.yes);
    else if (bytes == sizeof value.number) snprintf(text, room, "%u", value.number);
    else snprintf(text, room, "%" PRId64, value.whole);
    return HT_KNOB_REPORTED;
}

static void read_arenas(const struct ht_server *server, struct ht_arena_counts *arenas) {
    mallctl_function *mallctl = mallctl_of(server);
    unsigned most = 0, all = 0;
    size_t bytes = sizeof most;
    char name[64];
    if (mallctl("opt.narenas", &most, &bytes, NULL, 0)) return;
    arenas->most = most < ARENAS_MAX ? most : ARENAS_MAX;
    bytes = sizeof all;
    if (mallctl("arenas.narenas", &all, &bytes, NULL, 0)) return;
    arenas->used = 0;
    for (unsigned i = 0; i < all; i++) {
        bool there = false;
        bytes = sizeof there;
        snprintf(name, sizeof name, "arena.%u.initialized", i);
        if (mallctl(name, &there, &bytes, NULL, 0) == 0) arenas->used += there;
    }
}

static const struct ht_knob knobs[] = {
    {.name = "narenas",
     .range = {1, ARENAS_MAX},
     .standard = "4 for each processor",
     .search = {1, 64},
     .help = "number of arenas; threads are divided among them"},
    {.name = "percpu_arena",
     .words = "disabled|percpu|phycpu",
     .standard = "disabled",
     .help = "an arena for each processor that threads run on, or for each core"},
    {.name = "dirty_decay_ms",
     .range = {-1, INT64_C(18446744073709)},
     .standard = "10000",
     .search = {-1, 1000000},
     .help = "ms until unused dirty pages are returned; 0: at once; -1: never"},
    {.name = "muzzy_decay_ms",
     .range = {-1, INT64_C(18446744073709)},
     .standard = "0",
     .search = {-1, 1000000},
     .help = "ms until pages that the kernel may take are returned for good"},
    {.name = "background_thread", .standard = "0", .help = "its own threads return memory"},
    {.name = "max_background_threads",
     .range = {1, 4096},
     .standard = "4",
     .rounded = true,
     .search = {1, 16},
     .help = "most background threads; fewer on a machine with fewer processors"},
    {.name = "retain", .standard = "1", .help = "address space is kept when its memory is returned"},
    {.name = "oversize_threshold",
     .range = {0, INT64_C(1) << 40},
     .standard = "8388608",
     .search = {0, 1 << 30},
     .help = "bytes from which blocks have a separate arena, which returns memory at once; 0: none"},
    {.name = "lg_extent_max_active_fit",
     .range = {0, 63},
     .standard = "6",
     .help = "log2 of the greatest ratio between an unused extent and the block for which it is split"},
    {.name = "dss",
     .words = "disabled|primary|secondary",
     .standard = "secondary",
     .help = "memory from sbrk: never, first, or when mmap fails"},
    {.name = "tcache", .standard = "1", .help = "thread caches"},
    {.name = "tcache_max",
     .range = {8, 8 << 20},
     .standard = "32768",
     .since = "5.3",
     .rounded = true,
     .help = "bytes of the largest blocks in thread caches"},
    {.name = "tcache_nslots_small_min",
     .range = {1, 2000},
     .standard = "20",
     .since = "5.3",
     .rounded = true,
     .help = "least number of blocks of a small size in a thread cache"},
    {.name = "tcache_nslots_small_max",
     .range = {1, 2000},
     .standard = "200",
     .since = "5.3",
     .rounded = true,
     .help = "greatest number of blocks of a small size in a thread cache"},
    {.name = "tcache_nslots_large",
     .range = {1, 2000},
     .standard = "20",
     .since = "5.3",
     .rounded = true,
     .help = "number of blocks of a large size in a thread cache"},
    {.name = "lg_tcache_nslots_mul",
     .range = {-16, 16},
     .standard = "1",
     .since = "5.3",
     .help = "log2 of the blocks in a thread cache for each block of a slab"},
    {.name = "tcache_gc_incr_bytes",
     .range = {1024, INT64_C(1) << 40},
     .standard = "65536",
     .since = "5.3",
     .search = {1024, 16 << 20},
     .help =
         "bytes allocated by a thread between two trims of its cache, which since 5.3.1 are 10 ms apart, too"},
    {.name = "metadata_thp",
     .words = "disabled|auto|always",
     .standard = "disabled",
     .help = "huge pages for its own tables"},
    {.name = "thp", .words = "default|always|never", .standard = "default", .help = "huge pages for blocks"},
    {.name = "hpa",
     .standard = "0",
     .since = "5.3",
     .help = "blocks up to hpa_slab_max_alloc come from the allocator of huge pages"},
    {.name = "hpa_slab_max_alloc",
     .range = {4096, 2 << 20},
     .standard = "65536",
     .since = "5.3",
     .help = "bytes of the largest blocks from that allocator"},
    {.name = "zero",
     .standard = "0",
     .unsearched = true,
     .help = "all memory is zeroed when it is allocated"},
    {0}};

static const char *const booleans[] = {"false", "true"};

static const struct ht_fault faults[] = {{.since = "5.3.0",
                                          .last = "5.3.0",
                                          .help = "It has no pvalloc, and freeing a block of the C "
                                                  "library's pvalloc crashes; replayed as posix_memalign."},
                                         {0}};

const struct ht_allocator ht_allocator_jemalloc = {
    HT_BUILD_FACT(name, "jemalloc"),
    .title = "jemalloc: arenas by processor, returns memory with age",
    HT_BUILD_FACT(debian, "libjemalloc-dev"),
    .runtimes = (const char *const[]){"libjemalloc2", NULL},
    HT_BUILD_FACT(library, "jemalloc"),
    HT_BUILD_FACT(soname, "libjemalloc.so"),
    .known_by = "mallctl",
    .sized_free = "sdallocx",
    .has_operators = true,
    HT_BUILD_FACT(version_symbol, "mallctl"),
    HT_BUILD_FACT(version_type, "mallctl"),
    .version_text = "#-",  // 5.3.0-0-g, and the commit
    HT_BUILD_FACT(variables, "MALLOC_CONF=*|JE_MALLOC_CONF=*|_RJEM_MALLOC_CONF=*"),
    .signs = "_rjem_*|je_malloc*|je_mallctl*|je_calloc|je_realloc|je_rallocx|je_free|je_sdallocx|je_arena_*|"
             "je_tcache_*|mallctl|jemalloc_*",
    .message = "<jemalloc>: ",
    .version = version,
    .statistics = statistics,
    .read = read_values,
    .obeys = "mallctl",
    .purge_call = "arena.<all>.purge",
    .purge = purge,
    .knobs = knobs,
    .knobs_variable = "MALLOC_CONF",
    .knobs_format = "%s:%s",
    .knobs_booleans = booleans,
    .knobs_separator = ',',
    .knobs_always = "abort_conf:true",
    .passed =
        "slab_sizes|bin_shards|cache_oblivious|trust_madvise|lg_tcache_max|tcache_gc_delay_bytes|"
        "lg_tcache_flush_*|hpa_*|experimental_hpa_*|zero_realloc|junk|abort_conf|decay_time|purge|lg_dirty_mult|"
        "lg_chunk",
    .read_knob = read_knob,
    .by_processors = "4 arenas for each processor, at most 4094; one processor: one arena",
    .read_arenas = read_arenas,
    .clock = "clock_gettime",
    .faults = faults,
};
