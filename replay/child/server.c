// SPDX-License-Identifier: Apache-2.0
#include "server.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "allocator_calls.h"

static const void *object_of(void *address) {
    Dl_info found = {0};
    return address && dladdr(address, &found) ? found.dli_fbase : NULL;
}

void *ht_server_function(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    return function && object_of(function) == object_of((void *)HT_CALL_MALLOC) ? function : NULL;
}

// Several kinds that are one allocator's versions differ in where they are only.
static bool is_kind(const struct ht_allocator *kind, struct ht_server *server) {
    Dl_info found = {0};
    if (kind->folder && (!dladdr((void *)HT_CALL_MALLOC, &found) || !strstr(found.dli_fname, kind->folder))) {
        return false;
    }
    server->known = ht_server_function(kind->known_by);
    if (server->known) server->kind = kind;
    return server->known != NULL;
}

struct ht_server ht_server_find(const struct ht_allocator *likely, bool any) {
    struct ht_server found = {.usable_size = (uint64_t (*)(void *))ht_server_function("malloc_usable_size")};
    if (likely && is_kind(likely->build_of ? likely->build_of : likely, &found)) return found;
    for (size_t i = 0; any && ht_allocators[i] && !found.kind; i++) {
        if (!ht_allocators[i]->build_of) is_kind(ht_allocators[i], &found);
    }
    return found;
}
