#include "service_proof.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

static int look_at_object(struct dl_phdr_info *info, size_t size, void *context) {
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

static bool intended(const struct ht_job *job, const struct ht_allocator *kind, const char *path) {
    if (job->preloaded) {
        struct stat status;
        return stat(path, &status) == 0 && status.st_dev == job->expected_device &&
               status.st_ino == job->expected_inode;
    }
    return ht_allocator_is_file(kind, path);
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
            snprintf(outcome->message, sizeof outcome->message, "%s resolves into no known object",
                     calls[i].name);
            return false;
        }
        if (!base) base = found.dli_fbase;
        if (found.dli_fbase != base || !intended(job, kind, found.dli_fname)) {
            snprintf(outcome->message, sizeof outcome->message, "%s is served by %.200s, not by %s",
                     calls[i].name, found.dli_fname, job->preloaded ? "the library asked for" : kind->soname);
            return false;
        }
        snprintf(outcome->path, sizeof outcome->path, "%s", found.dli_fname);
    }
    struct note_search search = {(uintptr_t)base, outcome->build_id, sizeof outcome->build_id};
    dl_iterate_phdr(look_at_object, &search);
    return true;
}
