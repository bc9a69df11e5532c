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

const struct ht_allocator *ht_allocator_of_file(const char *path) {
    const struct ht_allocator *found = NULL;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    for (size_t i = 0; ht_allocators[i]; i++) {
        const struct ht_allocator *kind = ht_allocators[i];
        size_t length = strlen(kind->soname);
        if (strncmp(file, kind->soname, length)) continue;
        if (!found || length > strlen(found->soname)) found = kind;
    }
    return kind_of(found);
}

bool ht_version_within(const char *version, const char *since, const char *last) {
    return (!since || strverscmp(version, since) >= 0) && (!last || strverscmp(version, last) <= 0);
}

void ht_built_version(const struct ht_server *server, char *text, size_t room) {
    const char *version = dlsym(RTLD_DEFAULT, "heaptape_built_version");
    (void)server;
    if (version) snprintf(text, room, "%s", version);
}
