// SPDX-License-Identifier: Apache-2.0
#include "service_proof.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "allocator_calls.h"

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
