// SPDX-License-Identifier: Apache-2.0
// The C library's own malloc; also what a library given by its path is preloaded into.
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator.h"
#include "process_output.h"

static void version(const struct ht_server *server, char *text, size_t room) {
    snprintf(text, room, "%s", ((const char *(*)(void))server->known)());
}

static const struct ht_statistic statistics[] = {
    {"arena_bytes", "in arenas: the heap and the threads' own arenas"},
    {"mmapped_bytes", "in blocks with their own mapping"},
    {"in_use_bytes", "in blocks of the arenas, thread caches included"},
    {"free_bytes", "in free blocks of the arenas"},
    {"top_bytes", "at the end of the heap, which malloc_trim could return"},
    {0}};

// Not by <malloc.h>, which has it in none but this C library.
static void read_values(const struct ht_server *server, uint64_t *values) {
    struct info {
        size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
    };
    struct info (*mallinfo2)(void) = (struct info(*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
    (void)server;
    values[0] = values[1] = values[2] = values[3] = values[4] = HT_FIGURE_UNKNOWN;
    if (!mallinfo2) return;
    struct info info = mallinfo2();
    values[0] = info.arena;
    values[1] = info.hblkhd;
    values[2] = info.uordblks;
    values[3] = info.fordblks;
    values[4] = info.keepcost;
}

// malloc_info lists them, and there is no other way to learn how many there are.
static void read_arenas(const struct ht_server *server, struct ht_arena_counts *arenas) {
    int (*malloc_info)(int, FILE *) = (int (*)(int, FILE *))dlsym(RTLD_DEFAULT, "malloc_info");
    char *text = NULL;
    size_t bytes = 0;
    (void)server;
    FILE *file = malloc_info ? open_memstream(&text, &bytes) : NULL;
    if (!file) return;
    bool listed = malloc_info(0, file) == 0;
    if (fclose(file) || !listed) return free(text);
    arenas->used = 0;
    for (const char *at = text; (at = strstr(at, "<heap nr=")); at++) arenas->used++;
    free(text);
}

// The path of the loader that this process runs under.
static bool find_loader(char *path, size_t room) {
    uintptr_t inside = (uintptr_t)dlsym(RTLD_DEFAULT, "__tls_get_addr"), from, to;
    FILE *maps = inside ? fopen("/proc/self/maps", "re") : NULL;
    char line[4096 + 128];
    bool found = false;
    while (maps && !found && fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &from, &to) != 2 || inside < from || inside >= to)
            continue;
        const char *slash = strchr(line, '/');
        if (!slash) break;
        snprintf(path, room, "%.*s", (int)strcspn(slash, "\n"), slash);
        found = true;
    }
    if (maps) fclose(maps);
    return found;
}

// What the loader makes of the environment. It ignores what it does not know or what is out of range.
static const char *tunables(void) {
    static char text[16384], loader[4096];
    static bool asked;
    const char *const arguments[] = {loader, "--list-tunables", NULL};
    if (!asked && find_loader(loader, sizeof loader)) ht_process_output(arguments, NULL, text, sizeof text);
    asked = true;
    return text;
}

// One that nobody sets is listed as 0, which then is not its value. The loader goes on listing one that malloc no longer reads.
static enum ht_knob_state read_knob(const struct ht_server *server, const struct ht_knob *knob, char *text,
                                    size_t room) {
    char name[64];
    long long value;
    if (!ht_version_within(((const char *(*)(void))server->known)(), NULL, knob->last))
        return HT_KNOB_MISSING;
    int length = snprintf(name, sizeof name, "glibc.malloc.%s: ", knob->name);
    const char *at = strstr(tunables(), name), *set = getenv("GLIBC_TUNABLES");
    if (!at) return strstr(tunables(), "glibc.malloc.") ? HT_KNOB_MISSING : HT_KNOB_UNREPORTED;
    char *end = NULL;
    value = (long long)strtoull(at + length, &end, 0);  // -1 is listed as the greatest number
    if (end == at + length) return HT_KNOB_UNREPORTED;
    strcpy(name + length - 2, "=");
    if (!value && (!set || !strstr(set, name))) return HT_KNOB_UNREPORTED;
    snprintf(text, room, "%lld", value);
    return HT_KNOB_REPORTED;
}

static const struct ht_knob knobs[] = {
    {.name = "arena_max",
     .range = {1, 1 << 20},
     .standard = "8 for each processor",
     .also = "MALLOC_ARENA_MAX",
     .since = "2.26",
     .search = {1, 64},
     .help = "number of arenas; threads are divided among them"},
    {.name = "arena_test",
     .range = {1, 1 << 20},
     .standard = "8",
     .also = "MALLOC_ARENA_TEST",
     .since = "2.26",
     .search = {1, 64},
     .help = "arenas created before the limit by processors applies"},
    {.name = "tcache_count",
     .range = {0, 127},
     .standard = "7",
     .since = "2.26",
     .changes = (const struct ht_knob_change[]){{"2.30", {0, 65535}}, {"2.43", .standard = "16"}, {0}},
     .search = {0, 2000},
     .help = "blocks of each size in a thread's cache; 0: no cache"},
    {.name = "tcache_max",
     .range = {0, 1032},
     .standard = "1032",
     .since = "2.26",
     .changes = (const struct ht_knob_change[]){{"2.42", {0, (4 << 20) - 24}}, {0}},
     .help = "bytes of the largest blocks in a thread's cache"},
    {.name = "tcache_unsorted_limit",
     .range = {0, INT64_C(1) << 40},
     .standard = "0",
     .since = "2.26",
     .search = {0, 10000},
     .help = "free blocks tried for the cache at a time; 0: any number"},
    {.name = "mxfast",
     .range = {0, 160},
     .standard = "128",
     .since = "2.31",
     .last = "2.42",
     .help = "bytes of the largest blocks that are freed without being merged"},
    {.name = "mmap_threshold",
     .range = {0, 32 << 20},
     .standard = "131072, growing with freed mappings",
     .also = "MALLOC_MMAP_THRESHOLD_",
     .since = "2.26",
     .changes = (const struct ht_knob_change[]){{"2.35", {0, INT64_C(1) << 62}}, {0}},
     .search = {4096, 32 << 20},
     .help = "bytes from which a block gets its own mapping"},
    {.name = "mmap_max",
     .range = {0, 2147483647},
     .standard = "65536",
     .also = "MALLOC_MMAP_MAX_",
     .since = "2.26",
     .search = {0, 65536},
     .help = "greatest number of such mappings"},
    {.name = "trim_threshold",
     .range = {-1, INT64_C(1) << 62},
     .standard = "131072, growing with freed mappings",
     .also = "MALLOC_TRIM_THRESHOLD_",
     .since = "2.26",
     .search = {4096, 1 << 30},
     .help = "free bytes at the end of the heap above which they are returned; -1: never"},
    {.name = "top_pad",
     .range = {0, INT64_C(1) << 62},
     .standard = "131072",
     .also = "MALLOC_TOP_PAD_",
     .since = "2.26",
     .search = {0, 64 << 20},
     .help = "bytes by which the heap grows beyond the request"},
    {.name = "hugetlb",
     .range = {0, INT64_C(1) << 34},
     .standard = "0",
     .since = "2.35",
     .changes = (const struct ht_knob_change[]){{"2.43", .standard = "0, on aarch64 1"}, {0}},
     .search = {0, 1},
     .help = "1: requests transparent huge pages; 2 or a size: pages of the kernel's pool"},
    {0}};

static const struct ht_fault faults[] = {
    {.since = "2.37",
     .last = "2.37",
     .help = "realloc to a much smaller size keeps the whole block (glibc's bug 30579)."},
    {0}};

const struct ht_allocator ht_allocator_glibc = {
    HT_BUILD_FACT(name, "glibc"),
    .title = "the GNU C library's: ptmalloc, with thread caches",
    HT_BUILD_FACT(soname, "libc.so.6"),
    .known_by = "gnu_get_libc_version",  // others have mallinfo2, too
    HT_BUILD_FACT(variables, "GLIBC_TUNABLES=*|MALLOC_ARENA_*|MALLOC_MMAP_*|MALLOC_TOP_PAD_*|MALLOC_TRIM_*|"
                             "MALLOC_PERTURB_*|MALLOC_CHECK_*"),
    .version_text = " release version #",
    .version = version,
    .statistics = statistics,
    .read = read_values,
    .obeys = "mallopt|malloc_trim",
    .purge_call = "malloc_trim(0)",
    .purge = ht_trim,
    .by_processors = "8 arenas for each processor, counted once there are 9",
    .read_arenas = read_arenas,
    .knobs = knobs,
    .knobs_variable = "GLIBC_TUNABLES",
    .knobs_format = "glibc.malloc.%s=%s",
    .knobs_separator = ':',
    .passed = "perturb|MALLOC_PERTURB_",
    .read_knob = read_knob,
    .faults = faults,
};
