// SPDX-License-Identifier: Apache-2.0
// The malloc of musl since 1.2.1, from musl's sources and with the glue in own/ in place of musl's own. It counts
// nothing and has no settings.
#include "allocator.h"

static const struct ht_statistic statistics[] = {
    {"slots_bytes", "in slots for blocks below 128 KiB, used or free"}, {0}};

static void read_values(const struct ht_server *server, uint64_t *values) {
    values[0] = ((size_t (*)(void))server->known)();
}

const struct ht_allocator ht_allocator_mallocng = {
    HT_BUILD_FACT(name, "mallocng"),
    .title = "musl's malloc: small groups of blocks under one lock, returns empty groups",
    HT_BUILD_FACT(soname, "libmallocng.so"),
    .known_by = "heaptape_mallocng_slots",
    HT_BUILD_FACT(archive, "pool/main/m/musl/musl_1.2.5.orig.tar.gz"),
    HT_BUILD_FACT(archive_sha256, "a9a118bbe84d8764da0ea0d28b3ab3fae8477fc7e4085d90102b8596fc7c75e4"),
    HT_BUILD_FACT(build_version, "1.2.5"),
    HT_BUILD_FACT(build_sources,
                  "src/malloc/mallocng/malloc.c src/malloc/mallocng/free.c src/malloc/mallocng/realloc.c "
                  "src/malloc/mallocng/aligned_alloc.c src/malloc/mallocng/malloc_usable_size.c "
                  "src/malloc/calloc.c src/malloc/memalign.c src/malloc/posix_memalign.c "
                  "src/malloc/reallocarray.c src/thread/__lock.c"),
    HT_BUILD_FACT(build_flags,
                  "-I<sources>/src/malloc/mallocng -I<sources>/src/internal "
                  "-iquote<sources>/arch/<processor> -std=gnu99 -O3 -D_GNU_SOURCE -fomit-frame-pointer "
                  "-fno-builtin -fno-stack-protector"),
    .usable_is_requested = true,
    .version = ht_built_version,
    .statistics = statistics,
    .read = read_values,
    .by_processors = "nothing: all threads share one heap and its lock",
};
