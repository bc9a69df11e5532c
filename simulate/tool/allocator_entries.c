// SPDX-License-Identifier: GPL-3.0-or-later
// Where the functions of the malloc family begin: read from the symbols of what is mapped. Valgrind's own reader
// leaves out sections that it doesn't know, such as the one that gperftools has its malloc in.
#include <elf.h>

#include "tool.h"
#include <pub_tool_aspacemgr.h>
#include <pub_tool_libcbase.h>
#include <pub_tool_libcfile.h>
#include <pub_tool_mallocfree.h>
#include <pub_tool_vki.h>

static const struct {
    const HChar *name;
    enum call_kind kind;
} family[] = {
    {"malloc", CALL_MALLOC},
    {"calloc", CALL_CALLOC},
    {"realloc", CALL_REALLOC},
    {"reallocarray", CALL_REALLOC_ARRAY},
    {"free", CALL_FREE},
    {"cfree", CALL_FREE},
    {"free_sized", CALL_FREE},
    {"free_aligned_sized", CALL_FREE},
    {"memalign", CALL_ALIGNED},
    {"aligned_alloc", CALL_ALIGNED},
    {"posix_memalign", CALL_POSIX_MEMALIGN},
    {"valloc", CALL_PAGE_ALIGNED},
    {"pvalloc", CALL_PAGE_ALIGNED},
    {"malloc_usable_size", CALL_OTHER},
    {"malloc_trim", CALL_OTHER},
    {"mallocx", CALL_OTHER},
    {"rallocx", CALL_OTHER},
    {"sdallocx", CALL_FREE},
    {"dallocx", CALL_FREE},
    {"nallocx", CALL_OTHER},
    {"mi_malloc", CALL_MALLOC},
    {"mi_calloc", CALL_CALLOC},
    {"mi_realloc", CALL_REALLOC},
    {"mi_free", CALL_FREE},
    {"mi_free_size", CALL_FREE},
    {"mi_free_size_aligned", CALL_FREE},
    {"mi_free_aligned", CALL_FREE},
    {"mi_usable_size", CALL_OTHER},
    {"_Znwm", CALL_MALLOC},
    {"_Znam", CALL_MALLOC},
    {"_ZnwmRKSt9nothrow_t", CALL_MALLOC},
    {"_ZnamRKSt9nothrow_t", CALL_MALLOC},
    {"_ZnwmSt11align_val_t", CALL_ALIGNED_NEW},
    {"_ZnamSt11align_val_t", CALL_ALIGNED_NEW},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", CALL_ALIGNED_NEW},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", CALL_ALIGNED_NEW},
    {"_ZdlPv", CALL_FREE},
    {"_ZdaPv", CALL_FREE},
    {"_ZdlPvm", CALL_FREE},
    {"_ZdaPvm", CALL_FREE},
    {"_ZdlPvRKSt9nothrow_t", CALL_FREE},
    {"_ZdaPvRKSt9nothrow_t", CALL_FREE},
    {"_ZdlPvSt11align_val_t", CALL_FREE},
    {"_ZdaPvSt11align_val_t", CALL_FREE},
    {"_ZdlPvmSt11align_val_t", CALL_FREE},
    {"_ZdaPvmSt11align_val_t", CALL_FREE},
};

struct entry {
    Addr address;  // 0: none
    enum call_kind kind;
};
enum { ENTRIES = 1 << 14 };
static struct entry entries[ENTRIES];  // by hash, the next free one after it
static UInt entries_used;
static Bool operators;

Bool has_operators(void) { return operators; }

static UInt place_of(Addr address) { return (UInt)(address * 0x9e3779b97f4a7c15ull >> 50); }

enum call_kind call_entered_at(Addr address) {
    for (UInt i = place_of(address); entries[i].address; i = (i + 1) % ENTRIES) {
        if (entries[i].address == address) return entries[i].kind;
    }
    return CALL_NONE;
}

static void add_entry(Addr address, enum call_kind kind) {
    UInt i = place_of(address);
    while (entries[i].address && entries[i].address != address) i = (i + 1) % ENTRIES;
    if (!entries[i].address && ++entries_used > ENTRIES / 2) return;  // more than any program has
    operators = operators || (kind & CALL_OPERATOR);
    entries[i] = (struct entry){address, kind};
}

// What is unmapped stays in the table, as no function.
void forget_mapping(Addr address, SizeT bytes) {
    for (UInt i = 0; i < ENTRIES; i++) {
        if (entries[i].address && entries[i].address - address < bytes) entries[i].kind = CALL_NONE;
    }
}

static enum call_kind kind_of(const HChar *name) {
    for (UInt i = 0; i < sizeof family / sizeof *family; i++) {
        if (VG_(strcmp)(family[i].name, name)) continue;
        return family[i].kind | (name[0] == '_' ? CALL_OPERATOR : 0);
    }
    return CALL_NONE;
}

// So many bytes of the file, or NULL.
static void *read_part(Int fd, ULong offset, ULong bytes) {
    if (!bytes || bytes > 1u << 30 || VG_(lseek)(fd, (OffT)offset, VKI_SEEK_SET) < 0) return NULL;
    UChar *part = VG_(malloc)("heaptape.elf", bytes);
    for (ULong got = 0; got < bytes;) {
        Int count = VG_(read)(fd, part + got, (Int)(bytes - got));
        if (count <= 0) {
            VG_(free)(part);
            return NULL;
        }
        got += (ULong)count;
    }
    return part;
}

// An executable mapping of a file, and where it begins in it.
struct text {
    Addr address;
    ULong offset, bytes;
    Bool of_program;  // its own operators stay under every allocator
};

// The entries of one table of symbols that lie in the mapping.
static void add_symbols(Int fd, const Elf64_Shdr *symbols, const Elf64_Shdr *strings, const Elf64_Phdr *loads,
                        UInt load_count, struct text text) {
    Elf64_Sym *symbol = read_part(fd, symbols->sh_offset, symbols->sh_size);
    HChar *names = read_part(fd, strings->sh_offset, strings->sh_size);
    ULong count = symbol && names ? symbols->sh_size / sizeof *symbol : 0;
    if (names) names[strings->sh_size - 1] = 0;
    for (ULong i = 0; i < count; i++) {
        if (symbol[i].st_shndx == SHN_UNDEF || symbol[i].st_name >= strings->sh_size) continue;
        enum call_kind kind = kind_of(names + symbol[i].st_name);
        if (text.of_program) kind &= ~CALL_OPERATOR;
        for (UInt k = 0; kind && k < load_count; k++) {
            ULong within = symbol[i].st_value - loads[k].p_vaddr;
            if (loads[k].p_type != PT_LOAD || within >= loads[k].p_filesz) continue;
            ULong in_text = within + loads[k].p_offset - text.offset;
            if (in_text < text.bytes) add_entry(text.address + in_text, kind);
        }
    }
    if (symbol) VG_(free)(symbol);
    if (names) VG_(free)(names);
}

static void add_file(Int fd, struct text text) {
    Elf64_Ehdr *head = read_part(fd, 0, sizeof *head);
    if (!head || VG_(memcmp)(head->e_ident, ELFMAG, SELFMAG) || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_phentsize != sizeof(Elf64_Phdr) || head->e_shentsize != sizeof(Elf64_Shdr)) {
        if (head) VG_(free)(head);
        return;
    }
    Elf64_Phdr *loads = read_part(fd, head->e_phoff, (ULong)head->e_phnum * sizeof *loads);
    for (UInt i = 0; loads && i < head->e_phnum; i++) text.of_program |= loads[i].p_type == PT_INTERP;
    Elf64_Shdr *sections = read_part(fd, head->e_shoff, (ULong)head->e_shnum * sizeof *sections);
    for (UInt i = 0; loads && sections && i < head->e_shnum; i++) {
        bool symbols = sections[i].sh_type == SHT_DYNSYM || sections[i].sh_type == SHT_SYMTAB;
        if (symbols && sections[i].sh_link < head->e_shnum) {
            add_symbols(fd, &sections[i], &sections[sections[i].sh_link], loads, head->e_phnum, text);
        }
    }
    if (loads) VG_(free)(loads);
    if (sections) VG_(free)(sections);
    VG_(free)(head);
}

void note_mapping(Addr address, SizeT bytes, Bool executable) {
    const NSegment *segment = executable ? VG_(am_find_nsegment)(address) : NULL;
    const HChar *path = segment ? VG_(am_get_filename)(segment) : NULL;
    if (!path) return;
    Int fd = VG_(fd_open)(path, VKI_O_RDONLY, 0);
    if (fd < 0) return;
    ULong offset = (ULong)segment->offset + (address - segment->start);
    add_file(fd, (struct text){.address = address, .offset = offset, .bytes = bytes});
    VG_(close)(fd);
}
