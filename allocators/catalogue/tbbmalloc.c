// SPDX-License-Identifier: Apache-2.0
// oneTBB's scalable allocator. malloc is in its proxy: libtbbmalloc_proxy.so has the C names and hands
// the calls on to libtbbmalloc.so, which it brings along. There are no statistics to ask for.
#include <dlfcn.h>
#include <stddef.h>

#include "allocator.h"
#include "object_text.h"

static void version(const struct ht_server *server, char *text, size_t room) {
    (void)server;
    ht_object_text(dlsym(RTLD_DEFAULT, "scalable_malloc"), "TBBmalloc: VERSION", text, room);
}

static void purge(const struct ht_server *server) {
    enum { CLEAN_ALL_BUFFERS = 0 };  // TBBMALLOC_CLEAN_ALL_BUFFERS
    (void)server;
    int (*command)(int, void *) = (int (*)(int, void *))dlsym(RTLD_DEFAULT, "scalable_allocation_command");
    if (command) command(CLEAN_ALL_BUFFERS, NULL);
}

const struct ht_allocator ht_allocator_tbbmalloc = {
    HT_BUILD_FACT(name, "tbbmalloc"),
    .title = "oneTBB's scalable allocator: blocks of one size by thread, in slabs of 16 KiB",
    HT_BUILD_FACT(debian, "libtbb-dev"),
    .runtimes = (const char *const[]){"libtbbmalloc2", NULL},
    HT_BUILD_FACT(library, "tbbmalloc_proxy"),
    HT_BUILD_FACT(soname, "libtbbmalloc_proxy.so"),
    .known_by = "__TBB_malloc_proxy",
    HT_BUILD_FACT(variables, "TBB_MALLOC_*"),
    .passed = "TBB_MALLOC_USE_HUGE_PAGES|TBB_MALLOC_SET_HUGE_SIZE_THRESHOLD",
    .signs = "scalable_*",
    .version = version,
    .purge_call = "scalable_allocation_command",
    .purge = purge,
};
