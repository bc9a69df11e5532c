// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "allocator.h"
#include "allocator_calls.h"

static const void *object_of(void *address) {
    Dl_info found = {0};
    return address && dladdr(address, &found) ? found.dli_fbase : NULL;
}

void *ht_server_function(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    return function && object_of(function) == object_of((void *)HT_CALL_MALLOC) ? function : NULL;
}

// Several kinds that are one allocator's versions differ in where they are only.
static bool is_kind(const struct ht_allocator *kind, struct ht_server *server) {
    Dl_info found = {0};
    if (kind->folder && (!dladdr((void *)HT_CALL_MALLOC, &found) || !strstr(found.dli_fname, kind->folder))) {
        return false;
    }
    server->known = ht_server_function(kind->known_by);
    if (server->known) server->kind = kind;
    return server->known != NULL;
}

struct ht_server ht_server_find(const struct ht_allocator *likely, bool any) {
    struct ht_server found = {.usable_size = (uint64_t (*)(void *))ht_server_function("malloc_usable_size")};
    if (likely && is_kind(likely->build_of ? likely->build_of : likely, &found)) return found;
    for (size_t i = 0; any && ht_allocators[i] && !found.kind; i++) {
        if (!ht_allocators[i]->build_of) is_kind(ht_allocators[i], &found);
    }
    return found;
}

struct called {
    const char *name;
    void *address;
};

struct note_search {
    uintptr_t base;
    char *build_id;
    size_t room;
};

static void find_build_id(const char *notes, size_t bytes, struct note_search *search) {
    while (bytes >= sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *note = (const void *)notes;
        size_t name_bytes = (note->n_namesz + 3u) & ~3u, value_bytes = (note->n_descsz + 3u) & ~3u;
        size_t whole = sizeof *note + name_bytes + value_bytes;
        if (whole > bytes) return;
        const char *name = notes + sizeof *note;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
            const unsigned char *value = (const unsigned char *)name + name_bytes;
            for (size_t i = 0; i < note->n_descsz && 2 * i + 2 < search->room; i++) {
                snprintf(search->build_id + 2 * i, 3, "%02x", value[i]);
            }
            return;
        }
        notes += whole;
        bytes -= whole;
    }
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct note_search *search = context;
    uintptr_t first = UINTPTR_MAX;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_vaddr < first) first = segment->p_vaddr;
    }
    if (info->dlpi_addr + first != search->base) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_NOTE && !search->build_id[0]) {
            find_build_id((const char *)(info->dlpi_addr + segment->p_vaddr), segment->p_memsz, search);
        }
    }
    return 1;
}

static bool is_file(const char *path, uint64_t device, uint64_t inode) {
    struct statx status;  // stat is no function of glibc before 2.33
    return statx(AT_FDCWD, path, 0, STATX_INO, &status) == 0 && status.stx_ino == inode &&
           makedev(status.stx_dev_major, status.stx_dev_minor) == device;
}

static bool intended(const struct ht_job *job, const struct ht_allocator *kind, const char *path) {
    if (job->preloaded) return is_file(path, job->expected_device, job->expected_inode);
    return ht_allocator_is_file(kind, path);
}

static bool prove_libc(const struct ht_job *job, struct ht_outcome *outcome) {
    Dl_info found = {0};
    if (!job->libc_inode) return true;
    if (dladdr((void *)gnu_get_libc_version, &found) && found.dli_fname &&
        is_file(found.dli_fname, job->libc_device, job->libc_inode)) {
        return true;
    }
    snprintf(outcome->message, sizeof outcome->message, "its C library is %.200s, not its loader's",
             found.dli_fname ? found.dli_fname : "not known");
    return false;
}

struct object_search {
    const struct ht_job *job;
    const char *path;
};

static int is_asked_for(struct dl_phdr_info *info, size_t size, void *context) {
    (void)size;
    struct object_search *search = context;
    if (!is_file(info->dlpi_name, search->job->expected_device, search->job->expected_inode)) return 0;
    search->path = info->dlpi_name;
    return 1;
}

// Whether the chosen library has this function itself: dlsym searches the libraries that it needs, too.
static bool has_own(const struct ht_job *job, const char *path, const char *name) {
    Dl_info found = {0};
    void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD), *function = library ? dlsym(library, name) : NULL;
    return function && dladdr(function, &found) && found.dli_fname &&
           is_file(found.dli_fname, job->expected_device, job->expected_inode);
}

// Nothing is measured here any more, so that these searches may allocate.
static void report_server(const struct ht_job *job, const struct ht_allocator *kind, const char *name,
                          const char *path, char *text, size_t room) {
    struct object_search asked_for = {.job = job};
    if (job->preloaded) dl_iterate_phdr(is_asked_for, &asked_for);
    if (!job->preloaded) {
        snprintf(text, room, "%s is from %.200s, not from %s", name, path, kind->soname);
    } else if (!asked_for.path) {
        snprintf(text, room, "%s is from %.200s: the chosen library could not be loaded", name, path);
    } else if (has_own(job, asked_for.path, name)) {
        snprintf(text, room, "%s is from %.200s, not from the chosen library", name, path);
    } else {
        const struct ht_allocator *libc = ht_allocator_named("glibc");
        snprintf(text, room, "it has no %s: calls would go to %.200s", name,
                 ht_allocator_is_file(libc, path) ? "glibc's" : path);
    }
}

bool ht_service_proof(const struct ht_job *job, const struct ht_allocator *kind, struct ht_outcome *outcome) {
    const struct called calls[] = {
        {"malloc", (void *)HT_CALL_MALLOC},
        {"calloc", (void *)HT_CALL_CALLOC},
        {"realloc", (void *)HT_CALL_REALLOC},
        {"free", (void *)HT_CALL_FREE},
        {"posix_memalign", (void *)HT_CALL_POSIX_MEMALIGN},
    };
    void *base = NULL;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        Dl_info found = {0};
        if (!dladdr(calls[i].address, &found) || !found.dli_fname) {
            snprintf(outcome->message, sizeof outcome->message, "%s is from no known object", calls[i].name);
            return false;
        }
        if (!base) base = found.dli_fbase;
        if (found.dli_fbase != base || !intended(job, kind, found.dli_fname)) {
            report_server(job, kind, calls[i].name, found.dli_fname, outcome->message,
                          sizeof outcome->message);
            return false;
        }
        snprintf(outcome->path, sizeof outcome->path, "%s", found.dli_fname);
    }
    struct note_search search = {(uintptr_t)base, outcome->build_id, sizeof outcome->build_id};
    dl_iterate_phdr(visit_object, &search);
    return prove_libc(job, outcome);
}

struct operator_names {
    const char *make[HT_NEW_KINDS], *make_nothrow[HT_NEW_KINDS], *end[HT_FREE_KINDS];
};
static const struct operator_names names = {
    .make = {[HT_BY_NEW] = "_Znwm", [HT_BY_NEW_ARRAY] = "_Znam"},
    .make_nothrow = {[HT_BY_NEW] = "_ZnwmRKSt9nothrow_t", [HT_BY_NEW_ARRAY] = "_ZnamRKSt9nothrow_t"},
    .end = {[HT_BY_DELETE] = "_ZdlPv",
            [HT_BY_DELETE_ARRAY] = "_ZdaPv",
            [HT_BY_DELETE_SIZED] = "_ZdlPvm",
            [HT_BY_DELETE_ARRAY_SIZED] = "_ZdaPvm",
            [HT_BY_DELETE_ALIGNED] = "_ZdlPvmSt11align_val_t",
            [HT_BY_DELETE_ARRAY_ALIGNED] = "_ZdaPvmSt11align_val_t"}};

// As the loader binds a program's call: the allocator is before the C++ library.
static void *as_program_finds(void *library, const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    return function || !library ? function : dlsym(library, name);
}

static void *find(void *library, bool as_program, const struct ht_server *server, const char *name) {
    if (!name) return NULL;
    if (as_program) return as_program_finds(library, name);
    return server->kind && server->kind->has_operators ? ht_server_function(name) : NULL;
}

static const char *sized_free(const struct ht_allocator *kind, enum ht_free_kind how) {
    if (kind && how == HT_BY_FREE_SIZED) return kind->sized_free;
    if (kind && how == HT_BY_FREE_ALIGNED) return kind->sized_free_aligned;
    return NULL;
}

struct ht_operators ht_operators_find(const struct ht_server *server, bool as_program) {
    if (server->kind && server->kind->is_null) as_program = false;
    void *library = as_program ? dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) : NULL;
    void *make = (void *)HT_CALL_MALLOC, *end = (void *)HT_CALL_FREE;
    struct ht_operators found;
    for (unsigned i = 0; i < HT_NEW_KINDS; i++) {
        const char *name = as_program ? names.make[i] : names.make_nothrow[i];
        void *function = find(library, as_program, server, name);
        found.make[i] = (ht_new_call *)(function ? function : make);
    }
    for (unsigned i = 0; i < HT_FREE_KINDS; i++) {
        const char *own = sized_free(server->kind, i);
        void *function = own ? ht_server_function(own) : find(library, as_program, server, names.end[i]);
        found.end[i] = (ht_free_call *)(function ? function : end);
    }
    return found;
}

bool ht_operators_lacking(const struct ht_operators *operators) {
    return operators->make[HT_BY_NEW] == operators->make[HT_BY_MALLOC];
}

static __thread struct ht_lane *replaying;  // by this thread

void ht_new_guard(struct ht_lane *lane) { replaying = lane; }

static void end_making(void) { longjmp(replaying->without_memory, 1); }

// Without memory an operator new calls the program's new-handler, for which it asks the C++ library: it finds ours,
// which come first.
__attribute__((visibility("default"))) void (*replay_new_handler(void))(void) __asm__(
    "_ZSt15get_new_handlerv");
void (*replay_new_handler(void))(void) { return replaying && replaying->making ? end_making : NULL; }

__attribute__((visibility("default"))) void (*replay_set_new_handler(void (*handler)(void)))(void) __asm__(
    "_ZSt15set_new_handlerPFvvE");
void (*replay_set_new_handler(void (*handler)(void)))(void) {
    (void)handler;
    return replay_new_handler();
}

// One that is compiled as C cannot throw, and aborts (mimalloc's). Where others do, they go on with it.
static void aborted(int number) {
    (void)number;
    if (replaying && replaying->making) end_making();
}

void ht_new_guard_prepare(void) {
    struct sigaction action = {.sa_handler = aborted, .sa_flags = SA_NODEFER};
    sigaction(SIGABRT, &action, NULL);
}
