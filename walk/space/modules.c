// SPDX-License-Identifier: Apache-2.0
#include "modules.h"

#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "sorted.h"

enum {
    PROGRAM_HEADERS_MAX = 64,
    DYNAMIC_MAX = 512,
    TABLE_BYTES_MAX = 32 << 20,
    ALL_TABLES_BYTES_MAX = 128 << 20,
    TEXT_BYTES_MAX = 64 << 20,
    MODULES_MAX = 8192,
    NESTED_MAX = 8,  // symbols that begin within another one
};

// Where a module's tables lie.
struct tables {
    uint64_t symbols, strings, string_bytes;
};

static bool read_header(const struct space *space, uint64_t start, Elf64_Ehdr *header) {
    return space_read_all(space, start, header, sizeof *header) &&
           !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == ELFDATA2LSB && header->e_phentsize == sizeof(Elf64_Phdr) &&
           header->e_phnum <= PROGRAM_HEADERS_MAX;
}

// Fills bias, end and the dynamic section's place: 0 where there is none, as in a program that is linked statically. False:
// nothing is loaded.
static bool read_program_headers(const struct space *space, struct module *module, uint64_t *dynamic,
                                 uint64_t *dynamic_bytes) {
    Elf64_Ehdr header;
    Elf64_Phdr headers[PROGRAM_HEADERS_MAX];
    if (!read_header(space, module->start, &header)) return false;
    if (!space_read_all(space, module->start + header.e_phoff, headers, header.e_phnum * sizeof *headers))
        return false;
    bool loaded = false;
    *dynamic = 0;
    for (int i = 0; i < header.e_phnum; i++) {
        if (headers[i].p_type == PT_LOAD) {
            if (!loaded) module->bias = module->start - (headers[i].p_vaddr & ~(SPACE_PAGE_BYTES - 1));
            loaded = true;
            uint64_t end = module->bias + headers[i].p_vaddr + headers[i].p_memsz;
            if (end > module->end && end < UINT64_C(1) << 47) module->end = end;
        }
        if (headers[i].p_type == PT_DYNAMIC)
            *dynamic = headers[i].p_vaddr, *dynamic_bytes = headers[i].p_memsz;
    }
    if (*dynamic) *dynamic += module->bias;
    return loaded;
}

// glibc's loader writes addresses over the offsets, musl's does not.
static uint64_t address_of(const struct module *module, uint64_t value) {
    return value >= module->start && value < module->end ? value : value + module->bias;
}

static bool find_tables(const struct space *space, const struct module *module, uint64_t dynamic,
                        uint64_t bytes, struct tables *tables) {
    Elf64_Dyn entries[DYNAMIC_MAX];
    size_t count = bytes / sizeof *entries;
    if (count > DYNAMIC_MAX) count = DYNAMIC_MAX;
    count = space_read(space, dynamic, entries, count * sizeof *entries) / sizeof *entries;
    *tables = (struct tables){0};
    for (size_t i = 0; i < count && entries[i].d_tag != DT_NULL; i++) {
        if (entries[i].d_tag == DT_SYMTAB) tables->symbols = address_of(module, entries[i].d_un.d_ptr);
        if (entries[i].d_tag == DT_STRTAB) tables->strings = address_of(module, entries[i].d_un.d_ptr);
        if (entries[i].d_tag == DT_STRSZ) tables->string_bytes = entries[i].d_un.d_val;
    }
    // Every linker puts the names behind the symbols, whose number nothing else tells without a hash table.
    return tables->symbols && tables->strings > tables->symbols &&
           tables->strings - tables->symbols <= TABLE_BYTES_MAX && tables->string_bytes <= TABLE_BYTES_MAX;
}

static uint64_t bytes_of(const struct tables *tables) {
    return tables->strings - tables->symbols + tables->string_bytes;
}

static int by_value(const void *a, const void *b) {
    const Elf64_Sym *one = a, *other = b;
    if (one->st_value != other->st_value) return one->st_value < other->st_value ? -1 : 1;
    return (one->st_name > other->st_name) - (one->st_name < other->st_name);
}

static bool is_named(const struct module *module, const Elf64_Sym *symbol) {
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value && symbol->st_name < module->string_bytes &&
           module->strings[symbol->st_name] && ELF64_ST_TYPE(symbol->st_info) != STT_TLS;
}

static bool read_symbols(const struct space *space, struct module *module, const struct tables *tables) {
    size_t bytes = tables->strings - tables->symbols;
    module->symbols = malloc(bytes + sizeof *module->symbols);
    module->strings = calloc(1, tables->string_bytes + 1);
    if (!module->symbols || !module->strings) return false;
    module->string_bytes = space_read(space, tables->strings, module->strings, tables->string_bytes);
    size_t count = space_read(space, tables->symbols, module->symbols, bytes) / sizeof *module->symbols;
    for (size_t i = 0; i < count; i++)
        if (is_named(module, &module->symbols[i]))
            module->symbols[module->symbol_count++] = module->symbols[i];
    if (module->symbol_count) qsort(module->symbols, module->symbol_count, sizeof *module->symbols, by_value);
    return true;
}

// A file that is mapped as data may say that it reaches into the next one.
static void add_module(struct modules *modules, struct module module) {
    struct module *last = modules->count ? &modules->module[modules->count - 1] : NULL;
    if (last && last->end > module.start) last->end = module.start;
    modules->module[modules->count++] = module;
}

int modules_read(struct modules *modules, const struct space *space, struct ht_error *error) {
    *modules = (struct modules){.space = space};
    uint64_t left = ALL_TABLES_BYTES_MAX;
    for (size_t i = 0; i < space->mapping_count && modules->count < MODULES_MAX; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        struct module module = {.name = mapping->name, .start = mapping->start, .end = mapping->end};
        struct tables tables;
        uint64_t dynamic, bytes = 0;
        if (mapping->anonymous || mapping->file_offset || !mapping->readable || mapping->shared) continue;
        if (!read_program_headers(space, &module, &dynamic, &bytes)) continue;
        bool enough = true;
        if (dynamic && find_tables(space, &module, dynamic, bytes, &tables) && bytes_of(&tables) <= left) {
            left -= bytes_of(&tables);
            enough = read_symbols(space, &module, &tables);
        }
        if (enough && ht_grow(&modules->module, &modules->room, modules->count + 1, sizeof module)) {
            add_module(modules, module);
            continue;
        }
        free(module.symbols);
        free(module.strings);
        return ht_error_memory(error, "walk", "symbols");
    }
    return 0;
}

void modules_free(struct modules *modules) {
    for (size_t i = 0; i < modules->count; i++) {
        free(modules->module[i].symbols);
        free(modules->module[i].strings);
    }
    free(modules->module);
    *modules = (struct modules){0};
}

const struct module *modules_at(const struct modules *modules, uint64_t address) {
    size_t found = HT_FIRST_ABOVE(modules->module, modules->count, end, address);
    return found < modules->count && modules->module[found].start <= address ? &modules->module[found] : NULL;
}

uint64_t module_address_of(const struct module *module, const char *symbol) {
    for (size_t i = 0; i < module->symbol_count; i++)
        if (!strcmp(module->strings + module->symbols[i].st_name, symbol))
            return module->symbols[i].st_value + module->bias;
    return 0;
}

bool module_exports(const struct module *module, const char *symbol) {
    return module_address_of(module, symbol) != 0;
}

const char *module_symbol_at(const struct module *module, uint64_t address) {
    uint64_t value = address - module->bias;
    size_t behind = HT_FIRST_ABOVE(module->symbols, module->symbol_count, st_value, value);
    // The last that begins there or before, mostly; of those that begin alike the first.
    const Elf64_Sym *found = NULL;
    for (int i = 0; behind && i < NESTED_MAX; i++) {
        const Elf64_Sym *symbol = &module->symbols[--behind];
        if (found && symbol->st_value != found->st_value) break;
        if (value - symbol->st_value < symbol->st_size) found = symbol;
    }
    return found ? module->strings + found->st_name : NULL;
}

bool module_find_text(const struct modules *modules, const struct module *module, const char *text,
                      char *found, size_t room) {
    const struct space *space = modules->space;
    uint64_t left = TEXT_BYTES_MAX;
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        uint64_t bytes = mapping->end - mapping->start;
        if (mapping->start < module->start || mapping->start >= module->end || mapping->anonymous ||
            mapping->writable || !mapping->readable || bytes > left)
            continue;
        left -= bytes;
        char *copy = malloc(bytes);
        if (!copy) return false;
        size_t got = space_read(space, mapping->start, copy, bytes);
        const char *at = memmem(copy, got, text, strlen(text));
        if (at) {
            size_t length = strnlen(at, got - (size_t)(at - copy));
            if (length > room - 1) length = room - 1;
            memcpy(found, at, length);
            found[length] = 0;
        }
        free(copy);
        if (at) return true;
    }
    return false;
}
