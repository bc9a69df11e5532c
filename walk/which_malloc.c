// SPDX-License-Identifier: Apache-2.0
#include "which_malloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What only that allocator exports, and before which words it keeps its version.
static const struct {
    const char *name, *symbol, *before_version;
} known[] = {
    {"jemalloc", "mallctl", NULL},          {"mimalloc", "mi_malloc", NULL},
    {"tcmalloc", "tc_version", NULL},       {"tcmalloc", "MallocExtension_Internal_GetNumericProperty", NULL},
    {"snmalloc", "snmalloc_message", NULL}, {"rpmalloc", "rpmalloc", NULL},
    {"tbbmalloc", "scalable_malloc", NULL}, {"hoard", "hoardMalloc", NULL},
};

// The recorder and tools alike pass calls on to the malloc behind them.
static bool passes_on(const struct module *module) { return module_exports(module, "heaptape_recorder"); }

static const char *name_of(const struct module *module) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (module_exports(module, known[i].symbol)) return known[i].name;
    return "unknown";
}

// "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36."
static int glibc_minor(const struct modules *modules, const struct module *module, char *version,
                       size_t room) {
    static const char begin[] = "GNU C Library ", word[] = " release version 2.";
    char banner[256];
    if (!module_find_text(modules, module, begin, banner, sizeof banner)) return 0;
    const char *at = strstr(banner, word);
    if (!at) return 0;
    int minor = atoi(at + sizeof word - 1);
    snprintf(version, room, "2.%d", minor);
    return minor;
}

static bool is_the_loader(const struct module *module) { return module_exports(module, "_rtld_global"); }

void allocator_find(struct allocator *allocator, const struct modules *modules) {
    *allocator = (struct allocator){.name = "unknown"};
    char libc_version[sizeof allocator->version] = "";
    for (size_t i = 0; i < modules->count; i++) {
        const struct module *module = &modules->module[i];
        if (module_exports(module, "gnu_get_libc_version") && !allocator->libc) {
            allocator->libc = module;
            allocator->glibc_minor = glibc_minor(modules, module, libc_version, sizeof libc_version);
        } else if (module_exports(module, "malloc") && module_exports(module, "free") && !passes_on(module) &&
                   !is_the_loader(module) && !allocator->module) {
            allocator->module = module;
            allocator->name = module_exports(module, "__libc_start_main") ? "musl" : name_of(module);
        }
    }
    if (allocator->module || !allocator->libc) return;
    allocator->module = allocator->libc;
    allocator->name = "glibc";
    memcpy(allocator->version, libc_version, sizeof libc_version);
}
