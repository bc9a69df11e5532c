// SPDX-License-Identifier: Apache-2.0
// GrapheneOS' hardened_malloc. Its own counts are for builds with CONFIG_STATS, which is not the default.
#include "allocator.h"

static const struct ht_fault faults[] = {
    {.help =
         "It maps guard pages between slabs: a large heap needs more mappings than vm.max_map_count has by "
         "default."},
    {.unsimulated = true, .help = "It aborts under valgrind."},
    {0}};

const struct ht_allocator ht_allocator_hardened = {
    HT_BUILD_FACT(name, "hardened"),
    .title = "GrapheneOS' hardened_malloc, with its default defences: zeroing, checks, quarantine",
    HT_BUILD_FACT(soname, "libhardened.so"),
    .known_by = "malloc_object_size_fast",
    .signs = "h_malloc*",
    .linked_name = "hardened_malloc",
    HT_BUILD_FACT(crate, "hardened-malloc-sys"),
    HT_BUILD_FACT(build_version, "16.0.2026071503"),
    HT_BUILD_FACT(build_sources, "vendor/hardened-malloc/chacha.c vendor/hardened-malloc/h_malloc.c "
                                 "vendor/hardened-malloc/memory.c vendor/hardened-malloc/pages.c "
                                 "vendor/hardened-malloc/random.c vendor/hardened-malloc/util.c"),
    HT_BUILD_FACT(build_flags,
                  "-I<sources>/vendor/hardened-malloc -I<sources>/vendor/hardened-malloc/include "
                  "-I<sources>/vendor/hardened-malloc/third_party -std=gnu2x -include stdalign.h -O3 "
                  "-D_GNU_SOURCE -fvisibility=hidden -fno-plt -fstack-clash-protection "
                  "-fstack-protector-strong -DCONFIG_SEAL_METADATA=false -DZERO_ON_FREE=true "
                  "-DWRITE_AFTER_FREE_CHECK=true -DSLOT_RANDOMIZE=true -DSLAB_CANARY=true "
                  "-DSLAB_QUARANTINE_RANDOM_LENGTH=1 -DSLAB_QUARANTINE_QUEUE_LENGTH=1 "
                  "-DCONFIG_EXTENDED_SIZE_CLASSES=true -DCONFIG_LARGE_SIZE_CLASSES=true "
                  "-DGUARD_SLABS_INTERVAL=1 -DGUARD_SIZE_DIVISOR=2 "
                  "-DREGION_QUARANTINE_RANDOM_LENGTH=256 -DREGION_QUARANTINE_QUEUE_LENGTH=1024 "
                  "-DREGION_QUARANTINE_SKIP_THRESHOLD=33554432 "
                  "-DFREE_SLABS_QUARANTINE_RANDOM_LENGTH=32 -DCONFIG_CLASS_REGION_SIZE=34359738368 "
                  "-DN_ARENA=4 -DCONFIG_STATS=false -DCONFIG_SELF_INIT=true"),
    HT_BUILD_FACT(build_link_flags, "-Wl,-z,now -Wl,-z,relro"),
    .version = ht_built_version,
    .obeys = "malloc_trim",
    .purge_call = "malloc_trim(0)",
    .purge = ht_trim,
    .faults = faults,
};
