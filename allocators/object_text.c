// SPDX-License-Identifier: Apache-2.0
#include "object_text.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

bool ht_object_text(const void *address, const char *words, char *text, size_t room) {
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
