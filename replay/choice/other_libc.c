// SPDX-License-Identifier: Apache-2.0
#include "other_libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf_file.h"

#if defined __x86_64__
#define MULTIARCH "x86_64-linux-gnu"
#elif defined __aarch64__
#define MULTIARCH "aarch64-linux-gnu"
#else
#error "the folder of this processor's libraries is not known"
#endif

static const char libc_file[] = "libc.so.6";

// Below a root: where distributions have libc.so.6. Those that others end with come later.
static const char *const library_folders[] = {
    "/usr/lib/" MULTIARCH, "/lib/" MULTIARCH, "/usr/lib64", "/lib64", "/usr/lib", "/lib", ""};

static int fail(char problem[HT_OTHER_LIBC_PROBLEM_BYTES], const char *format, const char *path,
                const char *more) {
    snprintf(problem, HT_OTHER_LIBC_PROBLEM_BYTES, format, path, more);
    return -1;
}

// path up to its last slash.
static void folder_of(const char *path, char folder[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

// The root that a folder of libraries is in: /srv/old for /srv/old/lib64.
static void root_of(const char *folder, char root[PATH_MAX]) {
    size_t length = strlen(folder), i = 0;
    for (;; i++) {
        size_t end = strlen(library_folders[i]);
        if (end <= length && !strcmp(folder + length - end, library_folders[i])) break;
    }
    snprintf(root, PATH_MAX, "%.*s", (int)(length - strlen(library_folders[i])), folder);
}

// As realpath does it, but a link to an absolute path means that path in the link's own root: in an unpacked
// system /lib64/ld-linux-x86-64.so.2 is such a link, and must not lead to the loader of the running one.
static bool resolve(const char *path, char resolved[PATH_MAX]) {
    char folder[PATH_MAX], whole[PATH_MAX], root[PATH_MAX], target[PATH_MAX], within[2 * PATH_MAX];
    folder_of(path, folder);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length > 0 && *target == '/' && realpath(*folder ? folder : "/", whole)) {
        target[length] = 0;
        root_of(whole, root);
        snprintf(within, sizeof within, "%s%s", root, target);
        if (realpath(within, resolved)) return true;
    }
    return realpath(path, resolved);
}

// Whether the file is a shared object of this processor that passes for the test.
static bool is_object(const char *path, bool (*passes)(const struct elf_file *elf, const char *name)) {
    struct elf_file elf = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    bool is = elf_file_open(&elf, fd);
    if (is) {
        const char *name = elf_file_dynamic_string(&elf, DT_SONAME, 0);
        is = elf.header.e_type == ET_DYN && elf_file_is_native(&elf) && name && passes(&elf, name);
        elf_file_close(&elf);
    }
    close(fd);
    return is;
}

// It can be started, and needs and is interpreted by no other.
static bool is_loader(const struct elf_file *elf, const char *name) {
    char interpreter[PATH_MAX];
    return elf->header.e_entry && !strncmp(name, "ld", 2) && !elf_file_dynamic_string(elf, DT_NEEDED, 0) &&
           !elf_file_interpreter(elf, interpreter, sizeof interpreter);
}

static bool is_libc(const struct elf_file *elf, const char *name) {
    (void)elf;
    return !strcmp(name, libc_file);
}

static void find_threads(void *found, const char *name) {
    if (!strcmp(name, "pthread_create")) *(bool *)found = true;
}

static bool is_in_parts(const char *path) {
    struct elf_file elf = {0};
    bool whole = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool read = elf_file_open(&elf, fd) && elf_file_each_symbol(&elf, SHT_DYNSYM, find_threads, &whole);
    elf_file_close(&elf);
    close(fd);
    return read && !whole;
}

static bool is_libc_in(const char *root, const char *folder, char path[PATH_MAX]) {
    int length = snprintf(path, PATH_MAX, "%s%s/%s", root, folder, libc_file);
    return length < PATH_MAX && is_object(path, is_libc);
}

// Beside its loader, or where its root has libraries.
static bool find_libc(const char *loader, char path[PATH_MAX]) {
    char folder[PATH_MAX], root[PATH_MAX];
    folder_of(loader, folder);
    root_of(folder, root);
    if (is_libc_in(folder, "", path)) return true;
    for (size_t i = 0; *library_folders[i]; i++) {
        if (is_libc_in(root, library_folders[i], path)) return true;
    }
    return false;
}

// The folders that this program's own loader has: the other's may know of none but those of its own root, and
// allocators need more than libc.
static void add_folders(struct ht_other_libc *libc) {
    Dl_info found = {0};
    char folder[PATH_MAX], whole[PATH_MAX];
    const char *given = getenv("LD_LIBRARY_PATH");
    size_t used = strlen(libc->folders);
    if (given && *given && strlen(given) < PATH_MAX) {
        used += (size_t)snprintf(libc->folders + used, sizeof libc->folders - used, ":%s", given);
    }
    if (!dladdr((void *)gnu_get_libc_version, &found) || !found.dli_fname) return;
    if (!realpath(found.dli_fname, whole)) return;
    folder_of(whole, folder);
    snprintf(libc->folders + used, sizeof libc->folders - used, ":%s", folder);
}

int ht_other_libc_find(struct ht_other_libc *libc, const char *loader,
                       char problem[HT_OTHER_LIBC_PROBLEM_BYTES]) {
    char whole[PATH_MAX], path[PATH_MAX], folder[PATH_MAX];
    struct stat status;
    if (!resolve(loader, whole)) return fail(problem, "%.250s: %s", loader, strerror(errno));
    if (!is_object(whole, is_loader)) {
        return fail(problem,
                    "%.250s: expected the dynamic loader of a C library of this processor, such as "
                    "/lib64/ld-linux-x86-64.so.2%s",
                    loader, "");
    }
    if (access(whole, X_OK)) return fail(problem, "%.250s: %s", whole, strerror(errno));
    if (!find_libc(whole, path)) {
        return fail(problem,
                    "%.250s: its libc.so.6 is neither in its folder nor in its root's library folders%s",
                    whole, "");
    }
    folder_of(path, folder);
    if (stat(path, &status)) return fail(problem, "%.250s: %s", path, strerror(errno));
    // The loader splits the list of folders at these.
    if (strpbrk(folder, ":;")) {
        return fail(problem, "%.250s: expected a path without colon or semicolon%s", folder, "");
    }
    snprintf(libc->loader, sizeof libc->loader, "%s", whole);
    snprintf(libc->folders, sizeof libc->folders, "%s", folder);
    libc->device = status.st_dev;
    libc->inode = status.st_ino;
    libc->in_parts = is_in_parts(path);
    add_folders(libc);
    return 0;
}
