// SPDX-License-Identifier: Apache-2.0
#include "added_allocators.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char version_letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+~_-";

bool ht_added_folder(char folder[PATH_MAX]) {
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    bool own = data && *data == '/';  // the specification: a relative path is to be ignored
    if (!own && (!home || *home != '/')) return false;
    return snprintf(folder, PATH_MAX, "%s%s/heaptape/allocators", own ? data : home,
                    own ? "" : "/.local/share") < PATH_MAX;
}

const struct ht_allocator *ht_added_kind(const char *name, const char **version) {
    const char *at = strchr(name, '@');
    char kind[HT_ADDED_NAME_BYTES];
    if (!at || strlen(name) >= HT_ADDED_NAME_BYTES || at[1] < '0' || at[1] > '9' ||
        at[1 + strspn(at + 1, version_letters)])
        return NULL;
    snprintf(kind, sizeof kind, "%.*s", (int)(at - name), name);
    const struct ht_allocator *found = ht_allocator_named(kind);
    *version = at + 1;
    return found && !strcmp(found->name, kind) ? found : NULL;
}

static int by_version(const void *a, const void *b) { return strverscmp(a, b); }

size_t ht_added_names(char names[HT_ADDED_MAX][HT_ADDED_NAME_BYTES]) {
    char folder[PATH_MAX];
    const char *version;
    size_t count = 0;
    struct dirent *entry;
    DIR *listing = ht_added_folder(folder) ? opendir(folder) : NULL;
    while (listing && count < HT_ADDED_MAX && (entry = readdir(listing)))
        if (ht_added_kind(entry->d_name, &version)) strcpy(names[count++], entry->d_name);
    if (listing) closedir(listing);
    qsort(names, count, sizeof *names, by_version);
    return count;
}

// Those of the name's kind, in one line; empty where there are none.
static void say_those_there(const char *name, char *text, size_t room) {
    static char names[HT_ADDED_MAX][HT_ADDED_NAME_BYTES];
    size_t count = ht_added_names(names), length = strcspn(name, "@") + 1, used = 0;
    *text = 0;
    for (size_t i = 0; i < count && used < room; i++) {
        if (strncmp(names[i], name, length)) continue;
        used += (size_t)snprintf(text + used, room - used, "%s%s", used ? ", " : "", names[i]);
    }
}

static bool fail(char problem[HT_ADDED_PROBLEM_BYTES], const char *name) {
    char there[160];
    const char *version;
    say_those_there(name, there, sizeof there);
    if (!ht_added_kind(name, &version))
        snprintf(problem, HT_ADDED_PROBLEM_BYTES,
                 "%.100s: expected NAME@VERSION of an allocator that --list has, or NAME@LOADER with the "
                 "loader's path",
                 name);
    else
        snprintf(
            problem, HT_ADDED_PROBLEM_BYTES,
            "%.100s is not there%s%s; heaptape allocators add FILE adds one, from a package or a library",
            name, *there ? ": expected one of " : ", nor another version", there);
    return false;
}

// A file's name that the manifest gives, as a path; empty if it gives none or one that leads elsewhere.
static void take_path(const json_t *manifest, const char *key, const char *folder, char path[PATH_MAX]) {
    const char *file = json_string_value(json_object_get(manifest, key));
    *path = 0;
    if (!file || !*file || strchr(file, '/') || *file == '.') return;
    if (snprintf(path, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX) *path = 0;
}

static void take_text(const json_t *manifest, const char *key, char *text, size_t room) {
    const char *value = json_string_value(json_object_get(manifest, key));
    snprintf(text, room, "%s", value ? value : "");
}

// What others may write must not be loaded: code of theirs would run as us.
static bool is_safe(const char *path, mode_t type) {
    struct stat status;
    return !stat(path, &status) && (status.st_mode & S_IFMT) == type &&
           (status.st_uid == geteuid() || status.st_uid == 0) && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

bool ht_added_is_safe(const char *folder, char problem[HT_ADDED_PROBLEM_BYTES]) {
    snprintf(problem, HT_ADDED_PROBLEM_BYTES, "%.300s: expected a folder that only you or root may write to",
             folder);
    return is_safe(folder, S_IFDIR);
}

static json_t *load_manifest(const char *folder) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/" HT_ADDED_MANIFEST, folder) >= PATH_MAX || !is_safe(path, S_IFREG))
        return NULL;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    json_t *manifest = fd < 0 ? NULL : json_loadfd(fd, 0, NULL);
    if (fd >= 0) close(fd);
    return manifest;
}

bool ht_added_find(const char *name, struct ht_added *added, char problem[HT_ADDED_PROBLEM_BYTES]) {
    char all[PATH_MAX], folder[PATH_MAX];
    struct stat status;
    const char *version;
    *added = (struct ht_added){.kind = ht_added_kind(name, &version)};
    if (!added->kind || !ht_added_folder(all) ||
        snprintf(folder, sizeof folder, "%s/%s", all, name) >= PATH_MAX || lstat(folder, &status))
        return fail(problem, name);
    snprintf(added->name, sizeof added->name, "%s", name);
    if (!ht_added_is_safe(all, problem) || !ht_added_is_safe(folder, problem)) return false;
    json_t *manifest = load_manifest(folder);
    take_path(manifest, "library", folder, added->library);
    take_path(manifest, "loader", folder, added->loader);
    take_text(manifest, "version", added->version, sizeof added->version);
    take_text(manifest, "source", added->source, sizeof added->source);
    take_text(manifest, "source_sha256", added->sha256, sizeof added->sha256);
    take_text(manifest, "evidence", added->evidence, sizeof added->evidence);
    json_decref(manifest);
    if (*added->library && is_safe(added->library, S_IFREG) &&
        (!*added->loader || is_safe(added->loader, S_IFREG)))
        return true;
    snprintf(problem, HT_ADDED_PROBLEM_BYTES,
             "%.200s: expected " HT_ADDED_MANIFEST
             " to name a library here; heaptape allocators remove %.64s",
             folder, name);
    return false;
}
