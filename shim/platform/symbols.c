// SPDX-License-Identifier: Apache-2.0
// Finds the functions behind ours by reading the loaded objects' symbol tables.
//
// dlsym will not do: a look-up that fails leaves an error message in blocks that it allocates and the
// program's next dl call frees, and dlerror, which would clear them, takes the locale lock, which the program
// holds where its first allocation comes from setlocale (as binutils' as does). Reading the tables allocates
// nothing, locks nothing of the program's and sees privately loaded libraries too.
#include <link.h>
#include <string.h>

#include "loader.h"
#include "real.h"

struct table {
    uintptr_t base;
    const ElfW(Sym) * symbol;
    const char *names;
    const ElfW(Half) * version;  // NULL: no versions
    const uint32_t *gnu_hash, *hash;
};

struct search {
    const char *name;
    const void *inside;  // not NULL: only in the object that contains it
    bool behind_us;      // skip everything up to our own object
    bool found_us;
    void *found;
};

// Most loaders relocate the dynamic section in place; some leave offsets.
static const void *at(uintptr_t base, ElfW(Addr) value) {
    return (const void *)(value < base ? base + value : value);
}

static bool read_tables(struct dl_phdr_info *info, struct table *table) {
    const ElfW(Dyn) *dynamic = NULL;
    *table = (struct table){.base = info->dlpi_addr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *where = at(table->base, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_SYMTAB: table->symbol = where; break;
        case DT_STRTAB: table->names = where; break;
        case DT_VERSYM: table->version = where; break;
        case DT_GNU_HASH: table->gnu_hash = where; break;
        case DT_HASH: table->hash = where; break;
        }
    }
    return table->symbol && table->names && (table->gnu_hash || table->hash);
}

// The symbol's address if it is the one: defined here, callable, and its default version.
static void *take(const struct table *table, uint32_t i, const char *name) {
    const ElfW(Sym) *symbol = &table->symbol[i];
    unsigned type = symbol->st_info & 15;
    if (symbol->st_shndx == SHN_UNDEF || symbol->st_value == 0 || (type != STT_FUNC && type != STT_OBJECT))
        return NULL;
    if (strcmp(table->names + symbol->st_name, name)) return NULL;
    if (table->version && (table->version[i] & 0x8000)) return NULL;
    return (void *)(table->base + symbol->st_value);
}

static void *look_up_gnu(const struct table *table, const char *name) {
    uint32_t hash = 5381;
    for (const unsigned char *c = (const void *)name; *c; c++) hash = hash * 33 + *c;
    const uint32_t *header = table->gnu_hash;
    uint32_t buckets = header[0], first = header[1], bloom_words = header[2];
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(header + 4) + bloom_words);
    const uint32_t *chain = bucket + buckets;
    if (!buckets) return NULL;
    for (uint32_t i = bucket[hash % buckets]; i >= first && i; i++) {
        void *found = (chain[i - first] | 1) == (hash | 1) ? take(table, i, name) : NULL;
        if (found) return found;
        if (chain[i - first] & 1) break;
    }
    return NULL;
}

static void *look_up_sysv(const struct table *table, const char *name) {
    uint32_t hash = 0;
    for (const unsigned char *c = (const void *)name; *c; c++) {
        hash = (hash << 4) + *c;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    const uint32_t *bucket = table->hash + 2, *chain = bucket + table->hash[0];
    for (uint32_t i = table->hash[0] ? bucket[hash % table->hash[0]] : 0; i; i = chain[i]) {
        void *found = take(table, i, name);
        if (found) return found;
    }
    return NULL;
}

static bool contains(const struct dl_phdr_info *info, const void *address) {
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            (uintptr_t)address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr < info->dlpi_phdr[i].p_memsz)
            return true;
    return false;
}

void *symbol_of(struct dl_phdr_info *object, const char *name) {
    struct table table;
    if (!read_tables(object, &table)) return NULL;
    return table.gnu_hash ? look_up_gnu(&table, name) : look_up_sysv(&table, name);
}

static int visit(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct search *search = context;
    if (search->behind_us && !search->found_us) {
        search->found_us = contains(info, &real);
        return 0;
    }
    if (search->inside && !contains(info, search->inside)) return 0;
    search->found = symbol_of(info, search->name);
    return search->found != NULL;
}

void *symbol_behind_us(const char *name) {
    struct search search = {.name = name, .behind_us = true};
    loader_visit(visit, &search);
    return search.found;
}

void *symbol_anywhere(const char *name) {
    struct search search = {.name = name};
    loader_visit(visit, &search);
    return search.found;
}

void *symbol_inside(const void *object, const char *name) {
    struct search search = {.name = name, .inside = object};
    if (object) loader_visit(visit, &search);
    return search.found;
}

__attribute__((constructor)) static void find_lock(void) {
    loader_find_lock(symbol_behind_us("pthread_mutex_trylock"), symbol_behind_us("pthread_mutex_unlock"));
}
