#include "server.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "allocator_calls.h"

static const void *object_of(void *address) {
    Dl_info found = {0};
    return address && dladdr(address, &found) ? found.dli_fbase : NULL;
}

// The function of this name, if it comes from the object that serves malloc.
static void *of_server(const char *name) {
    void *function = dlsym(RTLD_DEFAULT, name);
    return function && object_of(function) == object_of((void *)HT_CALL_MALLOC) ? function : NULL;
}

struct ht_server ht_server_find(const struct ht_allocator *likely, bool any) {
    struct ht_server found = {.usable_size = (uint64_t(*)(void *))of_server("malloc_usable_size")};
    if (likely && likely->build_of) likely = likely->build_of;
    if (likely && (found.known = of_server(likely->known_by))) found.kind = likely;
    for (size_t i = 0; any && ht_allocators[i] && !found.kind; i++) {
        if (ht_allocators[i]->build_of) continue;
        found.known = of_server(ht_allocators[i]->known_by);
        if (found.known) found.kind = ht_allocators[i];
    }
    return found;
}
