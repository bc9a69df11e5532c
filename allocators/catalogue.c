#include <string.h>

#include "allocator.h"

const struct ht_allocator *ht_allocator_named(const char *name) {
    for (size_t i = 0; ht_allocators[i]; i++) {
        if (!strcmp(ht_allocators[i]->name, name)) return ht_allocators[i];
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
    return found;
}

bool ht_version_within(const char *version, const char *since, const char *last) {
    return (!since || strverscmp(version, since) >= 0) && (!last || strverscmp(version, last) <= 0);
}
