// SPDX-License-Identifier: Apache-2.0
#include "loader.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>

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

void loader_find_lock(void *trylock, void *release) {
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
void loader_find_lock(void *trylock, void *release) {
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
