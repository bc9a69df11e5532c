// SPDX-License-Identifier: Apache-2.0
#include "walk_image.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

#include "fuzz_input.h"

enum {
    PAGE = 4096,
    SETTINGS_AT = 0xc00,
    SYMBOLS_AT = 0x400,
    NAMES_AT = 0x600,
    BANNER_AT = 0x800,
    DYNAMIC_AT = 0x200
};
enum { IN_USE = 1, IS_MAPPED = 2, OF_OTHER_ARENA = 4 };

static const struct walk_part parts[REGIONS] = {
    [REGION_CORE] = {0, PAGE, "", "", 0, NULL},
    [REGION_TEXT] = {0x7f0000000000, PAGE, "/lib/libc.so.6", "r-xp", 0, NULL},
    [REGION_DATA] = {0x7f0000001000, PAGE, "/lib/libc.so.6", "rw-p", PAGE, NULL},
    [REGION_ZEROED] = {0x7f0000002000, PAGE, "", "rw-p", 0, NULL},
    [REGION_HEAP] = {0x555500000000, 4 * PAGE, "[heap]", "rw-p", 0, NULL},
    [REGION_ARENA] = {0x7e0000000000, 3 * PAGE, "", "rw-p", 0, NULL},
    [REGION_MAPPED] = {0x7f1000000000, 4 * PAGE, "", "rw-p", 0, NULL},
    [REGION_THREAD] = {0x7f2000000000, 2 * PAGE, "", "rw-p", 0, NULL},
};

static struct walk_image image;

static void put(enum walk_region region, uint64_t offset, const void *from, size_t bytes) {
    const struct walk_part *part = &image.parts[region];
    FUZZ_EXPECT(offset + bytes <= part->bytes, "%zu bytes at %llu of region %u", bytes,
                (unsigned long long)offset, region);
    memcpy(part->at + offset, from, bytes);
}

static void put_word(enum walk_region region, uint64_t offset, uint64_t word) {
    put(region, offset, &word, sizeof word);
}

// ---- the C library ----

static void put_symbol(unsigned number, const char *name, uint64_t value, uint64_t bytes,
                       unsigned *names_bytes) {
    Elf64_Sym symbol = {.st_name = *names_bytes, .st_shndx = 1, .st_value = value, .st_size = bytes};
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
    put(REGION_TEXT, SYMBOLS_AT + number * sizeof symbol, &symbol, sizeof symbol);
    put(REGION_TEXT, NAMES_AT + *names_bytes, name, strlen(name) + 1);
    *names_bytes += (unsigned)strlen(name) + 1;
}

static void make_library(int minor) {
    Elf64_Ehdr header = {
        .e_type = ET_DYN, .e_machine = EM_X86_64, .e_phoff = 64, .e_phentsize = 56, .e_phnum = 3};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    put(REGION_TEXT, 0, &header, sizeof header);
    unsigned names_bytes = 1;
    static const char *const names[] = {"gnu_get_libc_version", "malloc", "free", "__libc_start_main"};
    for (unsigned i = 0; i < 4; i++) put_symbol(i, names[i], 0x900 + 16 * i, 16, &names_bytes);
    put_symbol(4, "PyFunction_Type", 0xa00, 64, &names_bytes);
    put_symbol(5, "_ZTV3Row", 0xa80, 40, &names_bytes);
    const Elf64_Phdr programs[3] = {
        {.p_type = PT_LOAD, .p_filesz = PAGE, .p_memsz = PAGE},
        {.p_type = PT_LOAD, .p_offset = PAGE, .p_vaddr = PAGE, .p_filesz = PAGE, .p_memsz = 2 * PAGE},
        {.p_type = PT_DYNAMIC, .p_offset = DYNAMIC_AT, .p_vaddr = DYNAMIC_AT, .p_memsz = 64}};
    put(REGION_TEXT, sizeof header, programs, sizeof programs);
    const Elf64_Dyn dynamic[] = {
        {DT_SYMTAB, {SYMBOLS_AT}}, {DT_STRTAB, {NAMES_AT}}, {DT_STRSZ, {names_bytes}}};
    put(REGION_TEXT, DYNAMIC_AT, dynamic, sizeof dynamic);
    char banner[128];
    snprintf(banner, sizeof banner, "GNU C Library (Debian GLIBC 2.%d-9) stable release version 2.%d.", minor,
             minor);
    put(REGION_TEXT, BANNER_AT, banner, strlen(banner) + 1);
    put(REGION_TEXT, 0xb00, "3Row", 5);
    put_word(REGION_DATA, 0xe00,
             image.parts[REGION_DATA].address + 0xe20);  // before a table of functions: its type
    put_word(REGION_DATA, 0xe28, image.parts[REGION_TEXT].address + 0xb00);
}

// ---- malloc's data ----

static void make_settings(const struct glibc_layout *layout) {
    put_word(REGION_DATA, SETTINGS_AT, 131072);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.top_pad, 131072);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.mmap_threshold, 2 * PAGE);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.arena_test, 8);
    const uint32_t mapped_count[2] = {1, 65536};
    put(REGION_DATA, SETTINGS_AT + layout->settings.mapped_count, mapped_count, 4);
    put(REGION_DATA, SETTINGS_AT + layout->settings.mapped_count_max, mapped_count + 1, 4);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.mapped_bytes, 4 * PAGE);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.sbrk_base, image.parts[REGION_HEAP].address);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.cache_bins, 64);
    put_word(REGION_DATA, SETTINGS_AT + layout->settings.cache_bins + 8, 1032);
}

struct lists {
    uint64_t top, unsorted, fast;
};

static void make_arena(const struct glibc_layout *layout, enum walk_region region, uint64_t offset,
                       uint64_t next, struct lists lists, uint64_t bytes) {
    uint64_t address = image.parts[region].address + offset;
    for (uint64_t i = 0; i < GLIBC_BINS; i++) {
        uint64_t at = offset + layout->arena.bins + 16 * i,
                 itself = address + layout->arena.bins + 16 * i - 16;
        uint64_t chunk = i == 0 && lists.unsorted ? lists.unsorted : itself;
        put_word(region, at, chunk);
        put_word(region, at + 8, chunk);
    }
    put_word(region, offset + layout->arena.top, lists.top);
    put_word(region, offset + layout->arena.next, next);
    put_word(region, offset + layout->arena.system_bytes, bytes);
    if (layout->arena.fastbins) put_word(region, offset + layout->arena.fastbins, lists.fast);
}

// ---- heaps ----

static uint64_t hidden(const struct glibc_layout *layout, uint64_t place, uint64_t link) {
    return layout->hides_links ? place >> 12 ^ link : link;
}

// A cache, a chunk in it, a live one, one in a fastbin, one in a bin, live ones that begin with what has a name, the top.
static struct lists make_chunks(const struct glibc_layout *layout, enum walk_region region, uint64_t at,
                                uint64_t bin, uint64_t flags) {
    const struct walk_part *part = &image.parts[region];
    uint64_t cache_bytes = (layout->cache.all + 8U + 15U) & ~15U;
    const uint64_t bytes[] = {cache_bytes, 32, 48, 48, 32, 512, 64, 64, 64, 64, 64, 64};
    uint64_t chunk[sizeof bytes / sizeof *bytes];
    enum { COUNT = sizeof bytes / sizeof *bytes, FREE = 5 };
    for (int i = 0; i < COUNT; at += bytes[i++]) {
        chunk[i] = part->address + at;
        put_word(region, at + 8, bytes[i] | flags | (i != FREE + 1 ? IN_USE : 0));
    }
    uint64_t base = part->address, top = base + at, key = layout->hides_links ? 0x5eed : chunk[0] + 16;
    put_word(region, at + 8, (part->bytes - at) | IN_USE);
    // Two chunks of 48 bytes in the cache.
    uint64_t cache = chunk[0] + 16 - base, heads = cache + layout->cache.all - 8U * layout->cache.bins;
    put_word(region, heads + 8, chunk[2] + 16);
    if (layout->cache.count_bytes == 1) part->at[cache + 1] = 2;
    else part->at[cache + 2] = 2;
    put_word(region, chunk[2] + 16 - base, hidden(layout, chunk[2] + 16, chunk[3] + 16));
    put_word(region, chunk[3] + 16 - base, hidden(layout, chunk[3] + 16, 0));
    put_word(region, chunk[2] + 24 - base, key);
    put_word(region, chunk[3] + 24 - base, key);
    put_word(region, chunk[4] + 16 - base, hidden(layout, chunk[4] + 16, 0));
    put_word(region, chunk[FREE] + 16 - base, bin);
    put_word(region, chunk[FREE] + 24 - base, bin);
    put_word(region, chunk[FREE + 1] - base, bytes[FREE]);
    for (int i = FREE + 1; i < COUNT; i++)
        put_word(region, chunk[i] + 16 - base,
                 i % 2 ? image.parts[REGION_TEXT].address + 0xa00 : image.parts[REGION_DATA].address + 0xe08);
    return (struct lists){top, chunk[FREE], layout->arena.fastbins ? chunk[4] : 0};
}

static void make_heaps(const struct glibc_layout *layout) {
    const struct walk_part *part = image.parts;
    uint64_t main = part[REGION_DATA].address, header = layout->heap_header_bytes,
             other = part[REGION_ARENA].address + header;
    struct lists lists = make_chunks(layout, REGION_HEAP, 0, main + layout->arena.bins - 16, 0);
    make_arena(layout, REGION_DATA, 0, other, lists, part[REGION_HEAP].bytes);
    lists = make_chunks(layout, REGION_ARENA, (header + layout->arena.all + 15) & ~UINT64_C(15),
                        other + layout->arena.bins - 16, OF_OTHER_ARENA);
    make_arena(layout, REGION_ARENA, header, main, lists, part[REGION_ARENA].bytes);
    put_word(REGION_ARENA, 0, other);
    put_word(REGION_ARENA, 16, part[REGION_ARENA].bytes);
    put_word(REGION_MAPPED, 8, (4 * PAGE - layout->mapped_header_bytes) | IS_MAPPED);
    uint64_t block = part[REGION_THREAD].address + PAGE + 0x800;
    put_word(REGION_THREAD, PAGE + 0x800, block);
    put_word(REGION_THREAD, PAGE + 0x810, block);
    put_word(REGION_THREAD, PAGE + 0x7c0, part[REGION_HEAP].address + 16);
}

// ---- a core of it ----

static void put_note(size_t *at, unsigned type, const void *note, size_t bytes) {
    Elf64_Nhdr header = {.n_namesz = 5, .n_descsz = (unsigned)bytes, .n_type = type};
    put(REGION_CORE, *at, &header, sizeof header);
    put(REGION_CORE, *at + sizeof header, "CORE", 5);
    put(REGION_CORE, *at + sizeof header + 8, note, bytes);
    *at += sizeof header + 8 + ((bytes + 3) & ~(size_t)3);
}

static void make_core(void) {
    enum { NOTES_AT = 0x400, SEGMENTS = REGIONS };
    Elf64_Ehdr header = {
        .e_type = ET_CORE, .e_machine = EM_X86_64, .e_phoff = 64, .e_phentsize = 56, .e_phnum = SEGMENTS};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    put(REGION_CORE, 0, &header, sizeof header);
    uint64_t files[2 + 2 * 3] = {2, PAGE};
    char note[sizeof files + 64];
    size_t bytes = sizeof files, at = NOTES_AT;
    for (int i = REGION_TEXT; i <= REGION_DATA; i++) {
        const struct walk_part *part = &image.parts[i];
        uint64_t *entry = files + 2 + (i - REGION_TEXT) * 3;
        entry[0] = part->address, entry[1] = part->address + part->bytes, entry[2] = part->file_offset / PAGE;
        bytes += (size_t)sprintf(note + bytes, "%s", part->name) + 1;
    }
    memcpy(note, files, sizeof files);
    prpsinfo_t info = {.pr_psargs = "program --serve"};
    put_note(&at, NT_PRPSINFO, &info, sizeof info);
    put_note(&at, NT_FILE, note, bytes);
    Elf64_Phdr segments[SEGMENTS] = {{.p_type = PT_NOTE, .p_offset = NOTES_AT, .p_filesz = at - NOTES_AT}};
    for (int i = 1; i < REGIONS; i++) {
        const struct walk_part *part = &image.parts[i];
        segments[i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R | (part->permissions[1] == 'w' ? PF_W : 0),
                                   .p_vaddr = part->address,
                                   .p_offset = (uint64_t)(part->at - image.bytes),
                                   .p_filesz = part->bytes,
                                   .p_memsz = part->bytes};
    }
    put(REGION_CORE, sizeof header, segments, sizeof segments);
}

struct walk_image *walk_image_make(int minor) {
    const struct glibc_layout *layout = glibc_layout_of(minor);
    FUZZ_EXPECT(layout, "no layout of 2.%d", minor);
    if (!image.bytes) {
        for (int i = 0; i < REGIONS; i++) image.size += parts[i].bytes;
        image.bytes = malloc(image.size);
        FUZZ_EXPECT(image.bytes, "no memory");
    }
    memset(image.bytes, 0, image.size);
    uint8_t *at = image.bytes;
    for (int i = 0; i < REGIONS; at += parts[i++].bytes) {
        image.parts[i] = parts[i];
        image.parts[i].at = at;
    }
    make_library(minor);
    make_settings(layout);
    make_heaps(layout);
    make_core();
    return &image;
}
