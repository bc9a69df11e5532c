// The C library's own malloc; also what a library given by its path is preloaded into.
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdio.h>

#include "allocator.h"

static void version(const struct ht_server *server, char *text, size_t room) {
    (void)server;
    snprintf(text, room, "%s", gnu_get_libc_version());
}

static const struct ht_statistic statistics[] = {
    {"arena_bytes", "in arenas: the heap, and what threads' arenas have of their own"},
    {"mmapped_bytes", "in blocks that are mappings of their own"},
    {"in_use_bytes", "of arenas in blocks, those in thread caches included"},
    {"free_bytes", "of arenas in free blocks"},
    {"top_bytes", "at the end of the heap, which malloc_trim could give back"},
    {0}};

static void read_values(const struct ht_server *server, uint64_t *values) {
    (void)server;
    struct mallinfo2 info = mallinfo2();
    values[0] = info.arena;
    values[1] = info.hblkhd;
    values[2] = info.uordblks;
    values[3] = info.fordblks;
    values[4] = info.keepcost;
}

static void purge(const struct ht_server *server) {
    (void)server;
    malloc_trim(0);
}

const struct ht_allocator ht_allocator_glibc = {
    .name = "glibc",
    .title = "the GNU C library's: ptmalloc, with thread caches",
    .soname = "libc.so.6",
    .known_by = "gnu_get_libc_version",  // others have mallinfo2, too
    .version = version,
    .statistics = statistics,
    .read = read_values,
    .purge_call = "malloc_trim(0)",
    .purge = purge,
};
