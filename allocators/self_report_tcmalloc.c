#include <dlfcn.h>
#include <stddef.h>

#include "self_report.h"

static const char *const names[] = {"allocated_bytes",          "heap_bytes",
                                    "pageheap_free_bytes",      "pageheap_unmapped_bytes",
                                    "central_cache_free_bytes", "transfer_cache_free_bytes",
                                    "thread_cache_free_bytes",  NULL};

static void read_values(void *known, uint64_t *values) {
    static const char *const asked[] = {"generic.current_allocated_bytes",
                                        "generic.heap_size",
                                        "tcmalloc.pageheap_free_bytes",
                                        "tcmalloc.pageheap_unmapped_bytes",
                                        "tcmalloc.central_cache_free_bytes",
                                        "tcmalloc.transfer_cache_free_bytes",
                                        "tcmalloc.current_total_thread_cache_bytes"};
    int (*get)(const char *, size_t *) = (int (*)(const char *, size_t *))known;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        size_t value = 0;
        values[i] = get(asked[i], &value) ? value : HT_FIGURE_UNKNOWN;
    }
}

static void purge(void *known) {
    (void)known;
    void (*release)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory");
    if (release) release();
}

const struct ht_self_report ht_report_tcmalloc = {.known_by = "MallocExtension_GetNumericProperty",
                                                  .names = names,
                                                  .read = read_values,
                                                  .purge_call = "ReleaseFreeMemory",
                                                  .purge = purge};
