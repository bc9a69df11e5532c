// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "allocator.h"

static const struct ht_allocator *kind_of(const struct ht_allocator *build) {
    return build && build->build_of ? build->build_of : build;
}

const struct ht_allocator *ht_allocator_named(const char *name) {
    for (size_t i = 0; ht_allocators[i]; i++) {
        if (!strcmp(ht_allocators[i]->name, name)) return kind_of(ht_allocators[i]);
    }
    return NULL;
}

bool ht_allocator_is_file(const struct ht_allocator *kind, const char *path) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    return !strncmp(file, kind->soname, strlen(kind->soname)) &&
           (!kind->folder || strstr(path, kind->folder));
}

const struct ht_allocator *ht_allocator_of_file(const char *path) {
    const struct ht_allocator *found = NULL;
    for (size_t i = 0; ht_allocators[i]; i++) {
        const struct ht_allocator *kind = ht_allocators[i];
        if (!ht_allocator_is_file(kind, path)) continue;
        if (!found || strlen(kind->soname) > strlen(found->soname)) found = kind;
    }
    return kind_of(found);
}

bool ht_fits_any(const char *patterns, const char *text) {
    for (const char *at = patterns; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL) {
        size_t length = strcspn(at, "*|");
        if (!strncmp(at, text, length) && (at[length] == '*' || text[length] == 0)) return true;
    }
    return false;
}

bool ht_sets_allocator(const char *variable) {
    for (size_t i = 0; ht_allocators[i]; i++)
        if (ht_fits_any(ht_allocators[i]->variables, variable)) return true;
    return false;
}

bool ht_version_within(const char *version, const char *since, const char *last) {
    return (!since || strverscmp(version, since) >= 0) && (!last || strverscmp(version, last) <= 0);
}

const char *ht_version_of_number(unsigned number, char text[HT_VERSION_NUMBER_BYTES]) {
    unsigned major = number < 1000 ? 100 : number < 10000 ? 1000 : 10000, minor = number < 1000 ? 10 : 100;
    snprintf(text, HT_VERSION_NUMBER_BYTES, "%u.%u.%u", number / major, number % major / minor,
             number % minor);
    return text;
}

void ht_built_version(const struct ht_server *server, char *text, size_t room) {
    const char *version = dlsym(RTLD_DEFAULT, "heaptape_built_version");
    (void)server;
    if (version) snprintf(text, room, "%s", version);
}

void ht_own_version(const struct ht_server *server, char *text, size_t room) {
    (void)server;
    snprintf(text, room, "%s", HEAPTAPE_VERSION);
}

void ht_trim(const struct ht_server *server) {
    int (*trim)(size_t) = (int (*)(size_t))dlsym(RTLD_DEFAULT, "malloc_trim");
    (void)server;
    if (trim) trim(0);
}

const char *ht_package_of(const struct ht_allocator *kind, const char *path) {
    const char *suffix = strstr(path, ".so.");
    for (const char *const *at = kind->runtimes; suffix && at && *at; at++) {
        const char *version = *at + strcspn(*at, "0123456789");
        if (!strncmp(suffix + strlen(".so."), version, strlen(version))) return *at;
    }
    return kind->debian;
}
