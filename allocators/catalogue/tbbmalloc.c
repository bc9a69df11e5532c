// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "allocator.h"

struct search {
    uintptr_t address;
    const char *words, *found;
    size_t left;  // bytes of the segment from found on
};

static void look_in(const struct dl_phdr_info *info, struct search *search) {
    for (int i = 0; i < info->dlpi_phnum && !search->found; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        const char *start = (const char *)(info->dlpi_addr + segment->p_vaddr);
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_R)) continue;
        search->found = memmem(start, segment->p_memsz, search->words, strlen(search->words));
        if (search->found) search->left = (size_t)(start + segment->p_memsz - search->found);
    }
}

static int read_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct search *search = context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || search->address - start >= segment->p_memsz) continue;
        look_in(info, search);
        return 1;
    }
    return 0;
}

// Searches the read-only parts of the object that has this address for the first place of these words,
// and puts into text what follows up to the end of the line or string, blanks at its beginning left out.
static bool object_text(const void *address, const char *words, char *text, size_t room) {
    struct search search = {.address = (uintptr_t)address, .words = words};
    if (address) dl_iterate_phdr(read_object, &search);
    if (!search.found) return false;
    const char *at = search.found + strlen(words), *end = search.found + search.left;
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    size_t length = 0;
    while (at + length < end && at[length] && at[length] != '\n') length++;
    snprintf(text, room, "%.*s", (int)length, at);
    return length > 0;
}

// oneTBB's scalable allocator. malloc is in its proxy: libtbbmalloc_proxy.so has the C names and hands
// the calls on to libtbbmalloc.so, which it brings along. There are no statistics to ask for.

static void version(const struct ht_server *server, char *text, size_t room) {
    (void)server;
    object_text(dlsym(RTLD_DEFAULT, "scalable_malloc"), "TBBmalloc: VERSION", text, room);
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
