// SPDX-License-Identifier: Apache-2.0
#include "loader.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "sys.h"

static bool may_be_locked;

void loader_may_be_locked(void) { may_be_locked = true; }

#ifdef __GLIBC__
// glibc's lock is a recursive mutex in _rtld_global, whose layout is glibc's own and differs by version. Which mutex it is
// shows where this thread visits the list, before the program has other threads: it is held in there, and then no more.
struct search {
    uintptr_t start, end;  // of the loader's writable segment
    uint32_t thread;
    pthread_mutex_t *found;
    unsigned count;
};

static pthread_mutex_t *list_lock;  // NULL: it is not known
static int (*try_lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *);

static int find_data(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || search->start - start >= segment->p_memsz) continue;
        search->end = start + segment->p_memsz;
        return 1;
    }
    return 0;
}

static int find_held(struct dl_phdr_info *info, size_t size, void *context) {
    struct search *search = context;
    (void)info;
    (void)size;
    for (uintptr_t at = search->start; search->end - at >= sizeof(pthread_mutex_t); at += sizeof(void *)) {
        pthread_mutex_t *mutex = (pthread_mutex_t *)at;
        if (mutex->__data.__kind != PTHREAD_MUTEX_RECURSIVE || !mutex->__data.__lock ||
            (uint32_t)mutex->__data.__owner != search->thread || mutex->__data.__count != 1)
            continue;
        search->found = mutex;
        search->count++;
    }
    return 1;
}

extern char _rtld_global[] __attribute__((weak));

static void find_lock(void *trylock, void *release) {
    struct search search = {.start = (uintptr_t)_rtld_global, .thread = sys_gettid()};
    if (!search.start) return;
    dl_iterate_phdr(find_data, &search);
    if (!search.end) return;
    dl_iterate_phdr(find_held, &search);
    try_lock = (int (*)(pthread_mutex_t *))trylock;
    unlock = (int (*)(pthread_mutex_t *))release;
    if (try_lock && unlock && search.count == 1 && !search.found->__data.__count &&
        !search.found->__data.__lock)
        list_lock = search.found;
}

// Mostly it is held for some microseconds.
bool loader_lock(void) {
    if (!list_lock) return !may_be_locked;
    for (unsigned step = 0; try_lock(list_lock); step++) {
        if (step == SYS_WAIT_YIELDS || may_be_locked) return false;
        sys_yield();
    }
    return true;
}

void loader_unlock(void) {
    if (list_lock) unlock(list_lock);
}
#else
// musl holds no lock while it calls back.
static void find_lock(void *trylock, void *release) {
    (void)trylock;
    (void)release;
}
bool loader_lock(void) { return !may_be_locked; }
void loader_unlock(void) {}
#endif

struct address_search {
    uintptr_t address;
    struct loaded_object object;
};

static int find_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct address_search *search = context;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + segment->p_vaddr;
        if (from < start) start = from;
        if (from + segment->p_memsz > end) end = from + segment->p_memsz;
    }
    if (search->address < start || search->address >= end) return 0;
    search->object = (struct loaded_object){start, end, info->dlpi_name};
    return 1;
}

struct loaded_object loader_object_of(const void *address) {
    struct address_search search = {(uintptr_t)address, {.name = ""}};
    if (address) loader_visit(find_object, &search);
    return search.object;
}

bool loader_visit(int (*visit)(struct dl_phdr_info *, size_t, void *), void *context) {
    if (!loader_lock()) return false;
    dl_iterate_phdr(visit, context);
    loader_unlock();
    return true;
}

// ---- symbols ----
//
// The functions behind ours are found by reading the loaded objects' symbol tables. dlsym will not do: a look-up that fails
// leaves an error message in blocks that it allocates and the program's next dl call frees, and dlerror, which would clear
// them, takes the locale lock, which the program holds where its first allocation comes from setlocale (as binutils' as
// does). Reading the tables allocates nothing, locks nothing of the program's and sees privately loaded libraries too.

static const char own_object;  // an address in the shim

struct table {
    uintptr_t base;
    const ElfW(Sym) * symbol;
    const char *names;
    const ElfW(Half) * version;  // NULL: no versions
    const uint32_t *gnu_hash, *hash;
};

struct symbol_search {
    const char *name;
    const void *inside;  // not NULL: only in the object that contains it
    bool behind_us;      // skip everything up to our own object
    bool found_us;
    void *found;
};

// Most loaders relocate the dynamic section in place; some leave offsets.
static const void *relocated(uintptr_t base, ElfW(Addr) value) {
    return (const void *)(value < base ? base + value : value);
}

static bool read_tables(struct dl_phdr_info *info, struct table *table) {
    const ElfW(Dyn) *dynamic = NULL;
    *table = (struct table){.base = info->dlpi_addr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *where = relocated(table->base, dynamic->d_un.d_ptr);
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

bool loader_object_has(const struct dl_phdr_info *info, const void *address) {
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

static int visit_for_symbol(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct symbol_search *search = context;
    if (search->behind_us && !search->found_us) {
        search->found_us = loader_object_has(info, &own_object);
        return 0;
    }
    if (search->inside && !loader_object_has(info, search->inside)) return 0;
    search->found = symbol_of(info, search->name);
    return search->found != NULL;
}

void *symbol_behind_us(const char *name) {
    struct symbol_search search = {.name = name, .behind_us = true};
    loader_visit(visit_for_symbol, &search);
    return search.found;
}

void *symbol_anywhere(const char *name) {
    struct symbol_search search = {.name = name};
    loader_visit(visit_for_symbol, &search);
    return search.found;
}

void *symbol_inside(const void *object, const char *name) {
    struct symbol_search search = {.name = name, .inside = object};
    if (object) loader_visit(visit_for_symbol, &search);
    return search.found;
}

// ---- build ids ----

// Names and contents of notes are filled up to 4 bytes.
static size_t filled(size_t bytes) { return (bytes + 3) & ~(size_t)3; }

static size_t find_in_notes(const char *at, size_t left, unsigned char id[BUILD_ID_BYTES_MAX]) {
    while (left >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)at;
        const char *name = (const char *)(note + 1);
        size_t before = sizeof *note + filled(note->n_namesz), bytes = note->n_descsz;
        if (before + bytes > left) break;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4) &&
            bytes <= BUILD_ID_BYTES_MAX) {
            memcpy(id, at + before, bytes);
            return bytes;
        }
        size_t whole = before + filled(bytes);
        if (whole >= left) break;
        at += whole;
        left -= whole;
    }
    return 0;
}

size_t build_id_read(uintptr_t bias, const ElfW(Phdr) * segment, unsigned segments,
                     unsigned char id[BUILD_ID_BYTES_MAX]) {
    size_t bytes = 0;
    for (unsigned i = 0; i < segments && !bytes; i++)
        if (segment[i].p_type == PT_NOTE)
            bytes = find_in_notes((const char *)(bias + segment[i].p_vaddr), segment[i].p_memsz, id);
    return bytes;
}

__attribute__((constructor)) static void find_lock_early(void) {
    find_lock(symbol_behind_us("pthread_mutex_trylock"), symbol_behind_us("pthread_mutex_unlock"));
}
