#include "self_report.h"

#include <dlfcn.h>
#include <stddef.h>
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

struct ht_reporter ht_reporter_find(void) {
    // The C library's first: its function is always found, and looking for one that is not there allocates.
    static const struct ht_self_report *const kinds[] = {&ht_report_glibc, &ht_report_jemalloc,
                                                         &ht_report_tcmalloc, &ht_report_mimalloc};
    struct ht_reporter found = {.usable_size = (uint64_t(*)(void *))of_server("malloc_usable_size")};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !found.kind; i++) {
        found.known = of_server(kinds[i]->known_by);
        if (found.known) found.kind = kinds[i];
    }
    return found;
}
