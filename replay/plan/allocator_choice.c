// SPDX-License-Identifier: Apache-2.0
#include "allocator_choice.h"

#include <dirent.h>
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
#include "option_values.h"

enum { HT_OTHER_LIBC_PROBLEM_BYTES = 400 };

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

static int fail_libc(char problem[HT_OTHER_LIBC_PROBLEM_BYTES], const char *format, const char *path,
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

// Finds the C library that the loader of that path belongs to. -1 with a problem that names what was
// expected.
static int other_libc_find(struct ht_other_libc *libc, const char *loader,
                           char problem[HT_OTHER_LIBC_PROBLEM_BYTES]) {
    char whole[PATH_MAX], path[PATH_MAX], folder[PATH_MAX];
    struct stat status;
    if (!resolve(loader, whole)) return fail_libc(problem, "%.250s: %s", loader, strerror(errno));
    if (!is_object(whole, is_loader)) {
        return fail_libc(problem,
                         "%.250s: expected the dynamic loader of a C library of this processor, such as "
                         "/lib64/ld-linux-x86-64.so.2%s",
                         loader, "");
    }
    if (access(whole, X_OK)) return fail_libc(problem, "%.250s: %s", whole, strerror(errno));
    if (!find_libc(whole, path)) {
        return fail_libc(problem,
                         "%.250s: its libc.so.6 is neither in its folder nor in its root's library folders%s",
                         whole, "");
    }
    folder_of(path, folder);
    if (stat(path, &status)) return fail_libc(problem, "%.250s: %s", path, strerror(errno));
    // The loader splits the list of folders at these.
    if (strpbrk(folder, ":;")) {
        return fail_libc(problem, "%.250s: expected a path without colon or semicolon%s", folder, "");
    }
    snprintf(libc->loader, sizeof libc->loader, "%s", whole);
    snprintf(libc->folders, sizeof libc->folders, "%s", folder);
    libc->device = status.st_dev;
    libc->inode = status.st_ino;
    libc->in_parts = is_in_parts(path);
    add_folders(libc);
    return 0;
}

// The measured executables lie beside this one (build tree), or in libexec under the prefix.
static const char *const places[] = {"", "/" HEAPTAPE_CHILDREN_FROM_BIN};
static const char prefix[] = "replay-";

static int fail(struct ht_error *error, int status, const char *format, const char *what, const char *more) {
    error->status = status;
    snprintf(error->message, sizeof error->message, format, what, more);
    return -1;
}

static bool own_folder(char folder[PATH_MAX]) {
    ssize_t got = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (got <= 0) return false;
    folder[got] = 0;
    char *slash = strrchr(folder, '/');
    if (slash) *slash = 0;
    return true;
}

static bool find_executable(const char *name, char *found, size_t room) {
    char folder[PATH_MAX];
    if (!own_folder(folder)) return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (snprintf(found, room, "%s%s/%s%s", folder, places[i], prefix, name) >= (int)room) continue;
        if (access(found, X_OK) == 0) return true;
    }
    return false;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_floor(const char *name) {
    const struct ht_allocator *kind = ht_allocator_named(name);
    return kind && kind->is_floor;
}

// The names of all that are built, sorted, with or without those that are no allocators to use.
static size_t built_names(char names[HT_CHOICES_MAX][64], bool floors) {
    char folder[PATH_MAX], *sorted[HT_CHOICES_MAX], found[HT_CHOICES_MAX][64], path[PATH_MAX + 64];
    size_t count = 0;
    if (!own_folder(folder)) return 0;
    for (size_t i = 0; i < sizeof places / sizeof *places && count == 0; i++) {
        snprintf(path, sizeof path, "%s%s", folder, places[i]);
        DIR *listing = opendir(path);
        struct dirent *entry;
        while (listing && (entry = readdir(listing)) && count < HT_CHOICES_MAX) {
            const char *name = entry->d_name + sizeof prefix - 1;
            if (strncmp(entry->d_name, prefix, sizeof prefix - 1) || strchr(name, '.')) continue;
            if ((is_floor(name) && !floors) || strlen(name) >= sizeof found[0]) continue;
            sorted[count] = strcpy(found[count], name);
            count++;
        }
        if (listing) closedir(listing);
    }
    qsort(sorted, count, sizeof *sorted, by_text);
    for (size_t i = 0; i < count; i++) strcpy(names[i], sorted[i]);
    return count;
}

static struct ht_choice *add(struct ht_choices *choices, const char *name, struct ht_error *error) {
    if (choices->count == HT_CHOICES_MAX || strlen(name) >= sizeof choices->list[0].name) {
        fail(error, HT_EXIT_USAGE,
             "--alloc: expected at most 64 allocators with names of at most 127 bytes%s%s", "", "");
        return NULL;
    }
    struct ht_choice *choice = &choices->list[choices->count++];
    *choice = (struct ht_choice){0};
    strcpy(choice->name, name);
    return choice;
}

static int add_built_in(struct ht_choices *choices, const char *label, const char *name,
                        struct ht_error *error) {
    char executable[4096];
    if (access("/proc/self/exe", F_OK)) {
        return fail(error, HT_EXIT_FAILED, "replay needs /proc, which is not mounted%s%s", "", "");
    }
    if (!*name || strchr(name, '/') || !find_executable(name, executable, sizeof executable)) {
        char names[HT_CHOICES_MAX][64], all[1024] = "", words[HT_MEANT_BYTES], wrong[256];
        struct ht_meant meant = {.word = name};
        size_t count = built_names(names, true);
        for (size_t i = 0; i < count && strlen(all) + sizeof names[0] + 2 < sizeof all; i++) {
            strcat(strcat(all, i ? ", " : ""), names[i]);
            ht_meant_try(&meant, names[i]);
        }
        snprintf(wrong, sizeof wrong, "%.100s is not built%s", *name ? name : "an empty name",
                 ht_meant_words(&meant, words));
        return fail(error, HT_EXIT_USAGE, "--alloc: %s; expected one of %.300s, or the path of a library",
                    wrong, all);
    }
    struct ht_choice *choice = add(choices, label, error);
    if (!choice) return -1;
    strcpy(choice->executable, executable);
    choice->kind = ht_allocator_named(name);
    return 0;
}

static int add_under_loader(struct ht_choices *choices, const char *label, const char *name,
                            const char *loader, struct ht_error *error) {
    char problem[HT_OTHER_LIBC_PROBLEM_BYTES];
    if (add_built_in(choices, label, name, error)) return -1;
    if (!other_libc_find(&choices->list[choices->count - 1].libc, loader, problem)) return 0;
    return fail(error, HT_EXIT_USAGE, "--alloc: %s%s", problem, "");
}

// A built-in, what being NAME@LOADER with its @ at this place.
static int add_under_other_libc(struct ht_choices *choices, const char *label, const char *what,
                                const char *at, struct ht_error *error) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(at - what), what);
    if (!strcmp(name, "null")) {
        return fail(error, HT_EXIT_USAGE, "--alloc: %.300s: null can be replayed under this C library only%s",
                    what, "");
    }
    return add_under_loader(choices, label, name, at + 1, error);
}

static int add_library(struct ht_choices *choices, const char *name, const char *path,
                       struct ht_error *error) {
    char whole[PATH_MAX], executable[4096];
    struct stat status;
    if (!realpath(path, whole) || stat(whole, &status)) {
        return fail(error, HT_EXIT_USAGE, "--alloc: %.300s: %s", path, strerror(errno));
    }
    // ld.so would split a preload at these.
    if (strpbrk(whole, " :")) {
        return fail(error, HT_EXIT_USAGE, "--alloc: %.300s: expected a path without space or colon%s", whole,
                    "");
    }
    if (!find_executable("glibc", executable, sizeof executable)) {
        return fail(error, HT_EXIT_FAILED,
                    "replay-glibc, which libraries are preloaded into, is not built%s%s", "", "");
    }
    struct ht_choice *choice = add(choices, name, error);
    if (!choice) return -1;
    strcpy(choice->executable, executable);
    snprintf(choice->preload, sizeof choice->preload, "%s", whole);
    choice->device = status.st_dev;
    choice->inode = status.st_ino;
    choice->kind = ht_allocator_of_file(path);
    return 0;
}

// An allocator of the user's folder, what being NAME@VERSION.
static int add_added(struct ht_choices *choices, const char *label, const char *what,
                     struct ht_error *error) {
    char problem[HT_ADDED_PROBLEM_BYTES];
    static struct ht_added added;
    if (!ht_added_find(what, &added, problem))
        return fail(error, HT_EXIT_USAGE, "--alloc: %s%s", problem, "");
    if (*added.loader) {
        if (add_under_loader(choices, label, added.kind->name, added.loader, error)) return -1;
    } else if (add_library(choices, label, added.library, error)) {
        return -1;
    }
    struct ht_choice *choice = &choices->list[choices->count - 1];
    choice->kind = added.kind;
    snprintf(choice->added, sizeof choice->added, "%s", added.name);
    return 0;
}

// What is behind a name, unless that is a label.
static int append_to_name(struct ht_choice *choice, const char *text, struct ht_error *error) {
    size_t used = strlen(choice->name), room = sizeof choice->name - used;
    const char *before = choice->knobs.count || choice->plain ? "," : ":";
    if (choice->labelled || (size_t)snprintf(choice->name + used, room, "%s%s", before, text) < room)
        return 0;
    return fail(error, HT_EXIT_USAGE,
                "--alloc: %s: expected a label (LABEL=NAME:KNOB=VALUE), because the name is too long with "
                "its knobs%s",
                choice->name, "");
}

// Adds a KNOB=VALUE, or "default" before all, to the choice that was added last; its name gets it, unless it has one of its
// own.
static int add_knob(struct ht_choices *choices, const char *given, struct ht_error *error) {
    struct ht_choice *choice = &choices->list[choices->count - 1];
    if (!strcmp(given, "default") && !choice->knobs.count && !choice->plain) {
        int failed = append_to_name(choice, given, error);
        choice->plain = true;
        return failed;
    }
    const struct ht_knob *knob = ht_knob_named(choice->knobs.kind, given);
    char problem[HT_KNOB_PROBLEM_BYTES], text[sizeof choice->name + HT_KNOB_NAME_BYTES];
    // One name for it in all results, whatever it was called here.
    snprintf(text, sizeof text, "%s%s", knob ? knob->name : "", knob ? given + strcspn(given, "=") : given);
    if (!choice->knobs.kind) {
        return fail(error, HT_EXIT_USAGE,
                    "--alloc: %s: unknown knobs: the library's file name matches no allocator of --list%s",
                    choice->name, "");
    }
    if (append_to_name(choice, text, error)) return -1;
    if (ht_knob_choices_add(&choice->knobs, text, problem)) return 0;
    return fail(error, HT_EXIT_USAGE, "--alloc: %s%s", problem, "");
}

// The knobs begin after the name, or after the last folder of a path. NULL: there are none.
static char *knobs_of(char *what) {
    char *slash = strrchr(what, '/');
    return strchr(slash ? slash : what, ':');
}

// The @ of NAME@VERSION or NAME@LOADER; a path may have others. NULL: there is none.
static const char *loader_of(const char *what) {
    const char *at = strchr(what, '@'), *slash = strchr(what, '/');
    return at && (!slash || at < slash) ? at : NULL;
}

static int add_what(struct ht_choices *choices, const char *label, char *what, struct ht_error *error) {
    char *knobs = knobs_of(what);
    if (knobs) *knobs = 0;
    const char *name = label ? label : what;
    const char *at = loader_of(what);
    int failed = at && !strchr(at, '/') ? add_added(choices, name, what, error)
                 : at                   ? add_under_other_libc(choices, name, what, at, error)
                 : strchr(what, '/')    ? add_library(choices, name, what, error)
                                        : add_built_in(choices, name, what, error);
    if (failed) return -1;
    struct ht_choice *choice = &choices->list[choices->count - 1];
    choice->labelled = label != NULL;
    choice->knobs.kind = choice->kind;
    return knobs ? add_knob(choices, knobs + 1, error) : 0;
}

int ht_choices_add_name(struct ht_choices *choices, const char *name, struct ht_error *error) {
    char what[PATH_MAX];
    snprintf(what, sizeof what, "%s", name);
    return add_what(choices, NULL, what, error);
}

static int add_all(struct ht_choices *choices, struct ht_error *error) {
    char names[HT_CHOICES_MAX][64];
    size_t count = built_names(names, false);
    for (size_t i = 0; i < count; i++) {
        if (ht_choices_add_name(choices, names[i], error)) return -1;
    }
    if (count) return 0;
    return fail(error, HT_EXIT_FAILED, "the folder of this program has no built allocator%s%s", "", "");
}

static int add_one(struct ht_choices *choices, char *spec, struct ht_error *error) {
    char *equals = strchr(spec, '=');
    if (!strcmp(spec, "null")) {
        choices->null_only = true;
        return 0;
    }
    if (!strcmp(spec, "all")) return add_all(choices, error);
    bool labelled = *spec != '/' && equals && equals > spec && !memchr(spec, ':', (size_t)(equals - spec));
    if (!labelled) return add_what(choices, NULL, spec, error);
    *equals = 0;
    char executable[4096], meant[HT_KNOB_NAME_BYTES];
    bool other = !strpbrk(equals + 1, "/@:") && !find_executable(equals + 1, executable, sizeof executable);
    if (other && ht_knob_meant(NULL, spec, meant)) {
        return fail(error, HT_EXIT_USAGE, "--alloc: %s is a knob: did you mean %s=...?", spec, meant);
    }
    if (!strcmp(spec, "null")) {
        return fail(error, HT_EXIT_USAGE,
                    "--alloc: null=%s: expected another label, as null is the harness%s", equals + 1, "");
    }
    if (!strcmp(equals + 1, "null")) {
        return fail(error, HT_EXIT_USAGE, "--alloc: %s=null: null is always replayed, under its own name%s",
                    spec, "");
    }
    return add_what(choices, spec, equals + 1, error);
}

// What follows an allocator's knobs is one more of them if it has the form of one: no label is meant where
// what it would stand for is neither built nor a path nor under a loader.
static bool is_knob(const struct ht_choices *choices, const char *part) {
    char executable[4096];
    const struct ht_choice *last = choices->count ? &choices->list[choices->count - 1] : NULL;
    const char *equals = strchr(part, '=');
    if (!last || (!last->knobs.count && !last->plain) || !equals) return false;
    if (ht_knob_named(last->kind, part)) return true;
    return !strpbrk(part, "/:@") && !find_executable(equals + 1, executable, sizeof executable);
}

// Once the knobs are in the names: an allocator may take part as it is and with knobs.
static int none_twice(const struct ht_choices *choices, struct ht_error *error) {
    for (size_t i = 0; i < choices->count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(choices->list[i].name, choices->list[j].name)) continue;
            return fail(error, HT_EXIT_USAGE, "--alloc: %s is named twice%s", choices->list[i].name, "");
        }
    }
    return 0;
}

int ht_choices_add(struct ht_choices *choices, const char *spec, struct ht_error *error) {
    char *copy = strdup(spec), *rest = copy, *one;
    int failed = copy ? 0 : fail(error, HT_EXIT_FAILED, "no memory%s%s", "", "");
    while (!failed && (one = strsep(&rest, ","))) {
        failed = is_knob(choices, one) ? add_knob(choices, one, error) : add_one(choices, one, error);
    }
    free(copy);
    return failed ? failed : none_twice(choices, error);
}

const char *ht_package_of_choice(const struct ht_choice *choice) {
    const struct ht_allocator *kind = choice->kind;
    // A build of ours has a name of its own.
    bool has_package =
        kind && kind->debian && !choice->preload[0] && ht_allocator_is_file(kind, choice->path);
    return has_package ? ht_package_of(kind, choice->path) : "";
}

bool ht_choice_take_settings(struct ht_choice *choice, const struct ht_recorded_settings *settings) {
    if (choice->plain || !settings->kind || choice->kind != settings->kind) return false;
    choice->knobs.kind = choice->kind;
    ht_knob_choices_take(&choice->knobs, settings);
    return choice->knobs.settings_count > 0;
}

const char *ht_choice_shown(const struct ht_choice *choice,
                            char text[sizeof((struct ht_choice *)NULL)->name + HT_SETTINGS_TEXT_BYTES]) {
    char settings[HT_SETTINGS_TEXT_BYTES];
    ht_settings_text(choice->knobs.settings, choice->knobs.settings_count, HT_SETTING_TAKEN, settings);
    bool more = *settings && !choice->labelled && choice->knobs.count;
    sprintf(text, "%s%s%s", choice->name, !*settings ? "" : more ? "," : ":", settings);
    return text;
}
