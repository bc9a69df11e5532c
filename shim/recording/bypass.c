// SPDX-License-Identifier: Apache-2.0
#include "bypass.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "context.h"
#include "loader.h"
#include "real.h"

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT };
#endif

struct relocations {
    const ElfW(Rela) * first;
    size_t bytes;
};

struct search {
    struct text text;
    bool begun;
};

static bool is_allocators(uintptr_t function) {
    return function == (uintptr_t)real.malloc || function == (uintptr_t)real.free ||
           function == (uintptr_t)real.calloc || function == (uintptr_t)real.realloc;
}

// A slot that was bound to the allocator although ours comes first. One that no call has bound yet still
// points into its own object.
static bool binds_past_us(uintptr_t base, struct relocations list) {
    for (size_t i = 0; i < list.bytes / sizeof *list.first; i++) {
        unsigned long type = ELF64_R_TYPE(list.first[i].r_info);
        if ((type == JUMP_SLOT || type == GLOB_DAT) &&
            is_allocators(*(const uintptr_t *)(base + list.first[i].r_offset)))
            return true;
    }
    return false;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t address) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && address - start < segment->p_memsz) return true;
    }
    return false;
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *context) {
    static unsigned long long visited;  // how many objects had been loaded when all were visited
    struct search *search = context;
    if (!search->begun && size > offsetof(struct dl_phdr_info, dlpi_adds)) {
        if (info->dlpi_adds == visited) return 1;  // nothing has come since
        visited = info->dlpi_adds;
    }
    search->begun = true;
    const ElfW(Dyn) *dynamic = NULL;
    struct relocations plain = {0}, calls = {0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        // Most loaders relocate the dynamic section in place; some leave offsets.
        uintptr_t value = dynamic->d_un.d_ptr;
        const void *at = (const void *)(value < info->dlpi_addr ? info->dlpi_addr + value : value);
        switch (dynamic->d_tag) {
        case DT_RELA: plain.first = at; break;
        case DT_RELASZ: plain.bytes = dynamic->d_un.d_val; break;
        case DT_JMPREL: calls.first = at; break;
        case DT_PLTRELSZ: calls.bytes = dynamic->d_un.d_val; break;
        }
    }
    // The executable cannot be bound so, and an allocator may call itself (tcmalloc does, by names of its own).
    if (!info->dlpi_name || !*info->dlpi_name || holds(info, (uintptr_t)real.malloc)) return 0;
    bool past = (plain.first && binds_past_us(info->dlpi_addr, plain)) ||
                (calls.first && binds_past_us(info->dlpi_addr, calls));
    if (past) context_add_name(&search->text, info->dlpi_name);
    return 0;
}

void bypass_note(struct ht_raw_header *header) {
    static struct ht_raw_header *_Atomic noted;
    struct search search = {0};
    if (noted == header || !context_begin_string(header, &search.text)) return;
    text_string(&search.text, "bypassed_by=");
    loader_visit(visit_object, &search);
    if (context_end_names(header, &search.text)) noted = header;
}
