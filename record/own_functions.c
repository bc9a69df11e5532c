// SPDX-License-Identifier: Apache-2.0
// Libraries are searched where the loader mostly finds them: by the paths that the file names,
// LD_LIBRARY_PATH, and the folders of the system. The loader's cache is not read.
#include "own_functions.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf_file.h"

enum { NAMES_MAX = 512, FILES_MAX = 256 };

struct name {
    char *text;
    bool plain;    // a standard one
    bool wanted;   // somebody cannot do without
    bool asked;    // somebody would take it if it is there
    bool defined;  // and it is
};

struct search {
    struct name name[NAMES_MAX];
    unsigned names;
    char *file[FILES_MAX];  // each once, in the order of finding
    unsigned files;
    char system[PATH_MAX];  // where this program's own C library lies
};

static struct name *find_name(struct search *search, const char *text) {
    for (unsigned i = 0; i < search->names; i++)
        if (!strcmp(search->name[i].text, text)) return &search->name[i];
    return NULL;
}

static void add_name(void *context, const char *text) {
    struct search *search = context;
    if (search->names == NAMES_MAX) return;
    char *copy = strdup(text);
    if (copy) search->name[search->names++] = (struct name){.text = copy};
}

static void mark_plain(void *context, const char *text) {
    struct name *name = find_name(context, text);
    if (name) name->plain = true;
}

static void mark_defined(void *context, const char *text) {
    struct name *name = find_name(context, text);
    if (name) name->defined = true;
}

// A weak one is how a program asks whether the allocator is there: it must not find ours where it is not.
static void mark_import(void *context, const char *text, bool weak) {
    struct name *name = find_name(context, text);
    if (name && weak) name->asked = true;
    else if (name) name->wanted = true;
}

static bool open_file(const char *path, struct elf_file *elf) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    if (elf_file_open(elf, fd)) return true;
    elf_file_close(elf);
    close(fd);
    return false;
}

static void close_file(struct elf_file *elf) {
    int fd = elf->fd;
    elf_file_close(elf);
    close(fd);
}

static void each_symbol_of(const char *path, void (*visit)(void *, const char *), struct search *search) {
    struct elf_file elf;
    if (!open_file(path, &elf)) return;
    elf_file_each_symbol(&elf, SHT_DYNSYM, visit, search);
    close_file(&elf);
}

static bool add_file(struct search *search, const char *path) {
    char real[PATH_MAX];
    if (!realpath(path, real) || access(real, R_OK)) return false;
    for (unsigned i = 0; i < search->files; i++)
        if (!strcmp(search->file[i], real)) return true;
    if (search->files < FILES_MAX && (search->file[search->files] = strdup(real))) search->files++;
    return true;
}

// A folder of a path, $ORIGIN in it replaced by the folder of the file that has the path.
static bool add_from_folder(struct search *search, const char *folder, size_t length, const char *of,
                            const char *name) {
    char path[3 * PATH_MAX];
    static const char *const origins[] = {"$ORIGIN", "${ORIGIN}"};
    if (length >= PATH_MAX || length == 0) return false;
    for (size_t i = 0; i < 2; i++) {
        size_t skipped = strlen(origins[i]);
        if (length < skipped || strncmp(folder, origins[i], skipped)) continue;
        snprintf(path, sizeof path, "%.*s/%.*s/%s", (int)(strrchr(of, '/') - of), of, (int)(length - skipped),
                 folder + skipped, name);
        return add_file(search, path);
    }
    snprintf(path, sizeof path, "%.*s/%s", (int)length, folder, name);
    return add_file(search, path);
}

static bool add_from_path(struct search *search, const char *folders, const char *of, const char *name) {
    for (const char *at = folders; at && *at;) {
        size_t length = strcspn(at, ":");
        if (add_from_folder(search, at, length, of, name)) return true;
        at += length + (at[length] == ':');
    }
    return false;
}

static void add_library(struct search *search, const struct elf_file *elf, const char *of, const char *name) {
    static const char system_folders[] = "/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib";
    if (strchr(name, '/')) {
        add_file(search, name);
        return;
    }
    (void)(add_from_path(search, elf_file_dynamic_string(elf, DT_RPATH, 0), of, name) ||
           add_from_path(search, getenv("LD_LIBRARY_PATH"), of, name) ||
           add_from_path(search, elf_file_dynamic_string(elf, DT_RUNPATH, 0), of, name) ||
           add_from_path(search, search->system, of, name) ||
           add_from_path(search, system_folders, of, name));
}

// Reads what one file takes and has, and which libraries it brings along.
static void look_into(struct search *search, const char *path, bool first) {
    struct elf_file elf;
    const char *needed;
    if (!open_file(path, &elf)) return;
    elf_file_each_symbol(&elf, SHT_DYNSYM, mark_defined, search);
    elf_file_each_import(&elf, mark_import, search);
    char *preloaded = first && getenv("LD_PRELOAD") ? strdup(getenv("LD_PRELOAD")) : NULL, *rest = preloaded;
    for (char *name; (name = strsep(&rest, " :"));)
        if (*name) add_library(search, &elf, path, name);
    free(preloaded);
    for (unsigned i = 0; (needed = elf_file_dynamic_string(&elf, DT_NEEDED, i)); i++)
        add_library(search, &elf, path, needed);
    close_file(&elf);
}

static void find_system_folder(struct search *search) {
    Dl_info libc;
    if (!dladdr((void *)(uintptr_t)&strlen, &libc) || !libc.dli_fname || *libc.dli_fname != '/') return;
    const char *slash = strrchr(libc.dli_fname, '/');
    snprintf(search->system, sizeof search->system, "%.*s", (int)(slash - libc.dli_fname), libc.dli_fname);
}

bool calls_own_functions(const char *executable, const char *plain, const char *full) {
    struct search *search = calloc(1, sizeof *search);
    bool calls = false, misleads = false;
    if (!search) return false;
    find_system_folder(search);
    each_symbol_of(full, add_name, search);
    each_symbol_of(plain, mark_plain, search);
    add_file(search, executable);
    for (unsigned i = 0; i < search->files; i++) look_into(search, search->file[i], i == 0);
    for (unsigned i = 0; i < search->names; i++) {
        const struct name *name = &search->name[i];
        calls = calls || (!name->plain && (name->wanted || (name->asked && name->defined)));
        misleads = misleads || (!name->plain && name->asked && !name->wanted && !name->defined);
    }
    for (unsigned i = 0; i < search->names; i++) free(search->name[i].text);
    for (unsigned i = 0; i < search->files; i++) free(search->file[i]);
    free(search);
    return calls && !misleads;
}
