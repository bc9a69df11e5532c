// SPDX-License-Identifier: Apache-2.0
// Everything is read by pread into memory of our own: a mapping would raise SIGBUS where another process cuts
// the file meanwhile. Each size that the file states is held against the file's own size, and against a
// limit.
#include "elf_file.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "all_bytes.h"

// Large programs in C++ have some hundred megabytes of names.
static const uint64_t TABLE_BYTES_MAX = UINT64_C(64) << 20, SYMBOL_BYTES_MAX = UINT64_C(1) << 30;

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));  // this program's own

// A piece of the file with a zero byte behind it, or NULL.
static void *read_large_piece(const struct elf_file *elf, uint64_t offset, uint64_t bytes) {
    if (bytes == 0 || bytes > SYMBOL_BYTES_MAX || offset > elf->bytes || bytes > elf->bytes - offset)
        return NULL;
    char *piece = malloc(bytes + 1);
    if (piece && ht_read_at(elf->fd, piece, bytes, offset)) {
        piece[bytes] = 0;
        return piece;
    }
    free(piece);
    return NULL;
}

static void *read_piece(const struct elf_file *elf, uint64_t offset, uint64_t bytes) {
    return bytes > TABLE_BYTES_MAX ? NULL : read_large_piece(elf, offset, bytes);
}

// A string of a table: its end is the table's at the latest, because read_piece puts a zero there.
static const char *string_at(const char *strings, uint64_t bytes, uint64_t at) {
    return strings && at < bytes ? strings + at : NULL;
}

// Where the file has what the loader will put at an address.
static bool offset_of_address(const struct elf_file *elf, uint64_t address, uint64_t *offset) {
    for (unsigned i = 0; i < elf->segments; i++) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
            address - segment->p_vaddr >= segment->p_filesz)
            continue;
        *offset = segment->p_offset + (address - segment->p_vaddr);
        return true;
    }
    return false;
}

static uint64_t dynamic_value(const struct elf_file *elf, int64_t tag) {
    for (unsigned i = 0; i < elf->dynamics; i++)
        if (elf->dynamic[i].d_tag == tag) return elf->dynamic[i].d_un.d_val;
    return 0;
}

static void read_dynamic(struct elf_file *elf) {
    for (unsigned i = 0; i < elf->segments && !elf->dynamic; i++) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_DYNAMIC) continue;
        elf->dynamic = read_piece(elf, segment->p_offset, segment->p_filesz);
        elf->dynamics = elf->dynamic ? (unsigned)(segment->p_filesz / sizeof *elf->dynamic) : 0;
    }
    for (unsigned i = 0; i < elf->dynamics; i++)
        if (elf->dynamic[i].d_tag == DT_NULL) elf->dynamics = i;
    uint64_t offset;
    if (!offset_of_address(elf, dynamic_value(elf, DT_STRTAB), &offset)) return;
    elf->dynamic_string_bytes = dynamic_value(elf, DT_STRSZ);
    elf->dynamic_strings = read_piece(elf, offset, elf->dynamic_string_bytes);
}

static void read_sections(struct elf_file *elf) {
    unsigned count = elf->header.e_shnum, names = elf->header.e_shstrndx;
    if (!count || elf->header.e_shentsize != sizeof *elf->section) return;
    elf->section = read_piece(elf, elf->header.e_shoff, count * sizeof *elf->section);
    elf->sections = elf->section ? count : 0;
    if (names >= elf->sections) return;
    elf->section_name_bytes = elf->section[names].sh_size;
    elf->section_names = read_piece(elf, elf->section[names].sh_offset, elf->section_name_bytes);
}

bool elf_file_open(struct elf_file *elf, int fd) {
    enum { OWN_ORDER = __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB };
    struct stat status;
    *elf = (struct elf_file){.fd = fd};
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) return false;
    elf->bytes = (uint64_t)status.st_size;
    Elf64_Ehdr *header = read_piece(elf, 0, sizeof *header);
    if (header) elf->header = *header;
    free(header);
    if (memcmp(elf->header.e_ident, ELFMAG, SELFMAG) || elf->header.e_ident[EI_CLASS] != ELFCLASS64 ||
        elf->header.e_ident[EI_DATA] != OWN_ORDER)
        return false;
    unsigned count = elf->header.e_phnum;
    if (count && elf->header.e_phentsize == sizeof *elf->segment) {
        elf->segment = read_piece(elf, elf->header.e_phoff, count * sizeof *elf->segment);
        elf->segments = elf->segment ? count : 0;
    }
    read_dynamic(elf);
    read_sections(elf);
    return true;
}

bool elf_file_is_native(const struct elf_file *elf) {
    return elf->header.e_machine == __ehdr_start.e_machine;
}

void elf_file_close(struct elf_file *elf) {
    free(elf->segment);
    free(elf->section);
    free(elf->section_names);
    free(elf->dynamic);
    free(elf->dynamic_strings);
    *elf = (struct elf_file){.fd = -1};
}

const char *elf_file_interpreter(const struct elf_file *elf, char *text, size_t room) {
    for (unsigned i = 0; i < elf->segments; i++) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_INTERP) continue;
        char *piece = segment->p_filesz < room ? read_piece(elf, segment->p_offset, segment->p_filesz) : NULL;
        *text = 0;  // one that cannot be read is still there
        if (piece) memcpy(text, piece, segment->p_filesz + 1);
        free(piece);
        return text;
    }
    return NULL;
}

const char *elf_file_dynamic_string(const struct elf_file *elf, int64_t tag, unsigned index) {
    for (unsigned i = 0; i < elf->dynamics; i++)
        if (elf->dynamic[i].d_tag == tag && index-- == 0) {
            const char *string =
                string_at(elf->dynamic_strings, elf->dynamic_string_bytes, elf->dynamic[i].d_un.d_val);
            return string ? string : "";
        }
    return NULL;
}

static const Elf64_Shdr *find_section(const struct elf_file *elf, const char *name) {
    for (unsigned i = 0; i < elf->sections; i++) {
        const char *its = string_at(elf->section_names, elf->section_name_bytes, elf->section[i].sh_name);
        if (its && !strcmp(its, name)) return &elf->section[i];
    }
    return NULL;
}

bool elf_file_has_section(const struct elf_file *elf, const char *name) {
    return find_section(elf, name) != NULL;
}

// A symbol table with the names in it.
struct symbols {
    Elf64_Sym *symbol;
    char *names;
    uint64_t count, name_bytes;
};

static bool read_symbols(const struct elf_file *elf, uint32_t table_type, struct symbols *symbols) {
    for (unsigned i = 0; i < elf->sections; i++) {
        const Elf64_Shdr *table = &elf->section[i];
        if (table->sh_type != table_type || table->sh_link >= elf->sections) continue;
        const Elf64_Shdr *strings = &elf->section[table->sh_link];
        symbols->symbol = read_large_piece(elf, table->sh_offset, table->sh_size);
        symbols->names = symbols->symbol ? read_large_piece(elf, strings->sh_offset, strings->sh_size) : NULL;
        symbols->count = table->sh_size / sizeof *symbols->symbol;
        symbols->name_bytes = strings->sh_size;
        if (!symbols->names) free(symbols->symbol);
        return symbols->names != NULL;
    }
    return false;
}

static void free_symbols(struct symbols *symbols) {
    free(symbols->names);
    free(symbols->symbol);
}

bool elf_file_each_symbol(const struct elf_file *elf, uint32_t table_type,
                          void (*visit)(void *context, const char *name), void *context) {
    struct symbols symbols;
    if (!read_symbols(elf, table_type, &symbols)) return false;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const Elf64_Sym *symbol = &symbols.symbol[i];
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        const char *name = string_at(symbols.names, symbols.name_bytes, symbol->st_name);
        if (name && symbol->st_shndx != SHN_UNDEF &&
            (type == STT_FUNC || type == STT_OBJECT || type == STT_GNU_IFUNC))
            visit(context, name);
    }
    free_symbols(&symbols);
    return true;
}

bool elf_file_each_function(const struct elf_file *elf, uint32_t table_type,
                            void (*visit)(void *context, const struct elf_function *function),
                            void *context) {
    struct symbols symbols;
    if (!read_symbols(elf, table_type, &symbols)) return false;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const Elf64_Sym *symbol = &symbols.symbol[i];
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        const struct elf_function function = {
            .name = string_at(symbols.names, symbols.name_bytes, symbol->st_name),
            .address = symbol->st_value,
            .bytes = symbol->st_size,
            .chosen_later = type == STT_GNU_IFUNC};
        if (function.name && symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_GNU_IFUNC))
            visit(context, &function);
    }
    free_symbols(&symbols);
    return true;
}

void *elf_file_at_address(const struct elf_file *elf, uint64_t address, uint64_t bytes) {
    uint64_t offset, last;
    if (!bytes || address + bytes < address || !offset_of_address(elf, address, &offset) ||
        !offset_of_address(elf, address + bytes - 1, &last) || last - offset != bytes - 1)
        return NULL;
    return read_piece(elf, offset, bytes);
}

bool elf_file_each_import(const struct elf_file *elf,
                          void (*visit)(void *context, const char *name, bool weak), void *context) {
    struct symbols symbols;
    if (!read_symbols(elf, SHT_DYNSYM, &symbols)) return false;
    for (uint64_t i = 0; i < symbols.count; i++) {
        const Elf64_Sym *symbol = &symbols.symbol[i];
        const char *name = string_at(symbols.names, symbols.name_bytes, symbol->st_name);
        if (name && symbol->st_shndx == SHN_UNDEF)
            visit(context, name, ELF64_ST_BIND(symbol->st_info) == STB_WEAK);
    }
    free_symbols(&symbols);
    return true;
}

char *elf_file_read_only_data(const struct elf_file *elf, uint64_t *bytes) {
    const Elf64_Shdr *data = find_section(elf, ".rodata");
    *bytes = data ? data->sh_size : 0;
    return data && data->sh_type == SHT_PROGBITS ? read_piece(elf, data->sh_offset, data->sh_size) : NULL;
}

bool elf_file_data_holds(const struct elf_file *elf, const char *text) {
    uint64_t bytes;
    char *piece = elf_file_read_only_data(elf, &bytes);
    bool holds = piece && memmem(piece, bytes, text, strlen(text));
    free(piece);
    return holds;
}
