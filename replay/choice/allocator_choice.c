// SPDX-License-Identifier: Apache-2.0
#include "allocator_choice.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "option_values.h"

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
    if (!ht_other_libc_find(&choices->list[choices->count - 1].libc, loader, problem)) return 0;
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

// Where the knobs begin: after the name, or after the last folder of a path. NULL: there are none.
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
