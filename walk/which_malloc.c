// SPDX-License-Identifier: Apache-2.0
#include "which_malloc.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What only that allocator exports; which text has its version, and how far behind the text's start it begins; what prints
// its figures to standard error.
static const struct known {
    const char *name, *symbol, *version_text;
    unsigned version_offset;
    const char *printer, *call;
} known[] = {
    {"jemalloc", "mallctl", NULL, 0, "malloc_stats_print", "malloc_stats_print(0, 0, 0)"},
    {"mimalloc", "mi_malloc", NULL, 0, "mi_stats_print", "mi_stats_print(0)"},
    {"tcmalloc", "tc_version", "gperftools ", 11, "malloc_stats", "malloc_stats()"},
    {"tcmalloc", "MallocExtension_Internal_GetNumericProperty", NULL, 0, "malloc_stats", "malloc_stats()"},
    {"snmalloc", "snmalloc_message", NULL, 0, NULL, NULL},
    {"snmalloc", "__malloc_end_pointer", NULL, 0, NULL, NULL},
    {"rpmalloc", "rpmalloc", NULL, 0, NULL, NULL},
    {"tbbmalloc", "scalable_malloc", "TBBmalloc: VERSION\t\t", 20, NULL, NULL},
    {"tbbmalloc", "__TBB_malloc_proxy", NULL, 0, NULL, NULL},
    {"hoard", "hoardMalloc", NULL, 0, NULL, NULL},
    {"musl", "__libc_start_main", NULL, 0, NULL, NULL},
    {"glibc", "gnu_get_libc_version", NULL, 0, "malloc_stats", "malloc_stats()"},
};

// What they say where they are part of a program, under other names.
static const struct {
    const char *name, *text;
} words[] = {{"jemalloc", "<jemalloc>: "},
             {"mimalloc", "mimalloc: "},
             {"tcmalloc", "tcmalloc: large alloc "},
             {"Go", "runtime: out of memory"}};

// The recorder and tools alike pass calls on to the malloc behind them.
static bool passes_on(const struct module *module) { return module_exports(module, "heaptape_recorder"); }

static bool is_the_loader(const struct module *module) { return module_exports(module, "_rtld_global"); }

// ---- versions ----

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

// mi_version is a function that returns a constant, such as 20009 of 2.0.9 and 30403 of 3.4.3, after endbr64 or not.
static void mimalloc_version(const struct modules *modules, const struct module *module, char *version,
                             size_t room) {
    enum { LOAD = 0xb8, RETURN = 0xc3 };
    static const uint8_t endbr[] = {0xf3, 0x0f, 0x1e, 0xfa};
    uint8_t code[16] = {0};
    uint64_t address = module_address_of(module, "mi_version");
    if (!address || !space_read_all(modules->space, address, code, sizeof code)) return;
    const uint8_t *at = memcmp(code, endbr, sizeof endbr) ? code : code + sizeof endbr;
    uint32_t number;
    memcpy(&number, at + 1, sizeof number);
    if (at[0] != LOAD || at[5] != RETURN || number >= 100000) return;
    // 212: 2.1.2, before 2.1.3.
    if (number < 1000) snprintf(version, room, "%u.%u.%u", number / 100, number / 10 % 10, number % 10);
    else snprintf(version, room, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
}

// "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"
static void jemalloc_version(const struct modules *modules, const struct module *module, char *version,
                             size_t room) {
    static const char *const begins[] = {"5.4.", "5.3.", "5.2.", "5.1.", "5.0.", "4.5.", "3.6."};
    char text[64];
    unsigned numbers[3];
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        if (!module_find_text(modules, module, begins[i], text, sizeof text) ||
            sscanf(text, "%u.%u.%u-%*u-", &numbers[0], &numbers[1], &numbers[2]) != 3 || !strstr(text, "-g"))
            continue;
        snprintf(version, room, "%u.%u.%u", numbers[0], numbers[1], numbers[2]);
        return;
    }
}

static void find_version(struct allocator *allocator, const struct modules *modules,
                         const struct known *mine) {
    char text[sizeof allocator->version + 32];
    char *version = allocator->version;
    size_t room = sizeof allocator->version;
    *version = 0;
    if (!strcmp(mine->name, "mimalloc")) mimalloc_version(modules, allocator->module, version, room);
    if (!strcmp(mine->name, "jemalloc")) jemalloc_version(modules, allocator->module, version, room);
    if (!mine->version_text ||
        !module_find_text(modules, allocator->module, mine->version_text, text, sizeof text))
        return;
    size_t length = strspn(text + mine->version_offset, "0123456789.");
    if (length && length < room) snprintf(version, room, "%.*s", (int)length, text + mine->version_offset);
}

// ---- names ----

static const char *name_by_words(const struct modules *modules, const struct module *module) {
    char text[2];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (module_find_text(modules, module, words[i].text, text, sizeof text)) return words[i].name;
    return NULL;
}

static const char *name_of(const struct modules *modules, const struct module *module) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (module_exports(module, known[i].symbol)) return known[i].name;
    return name_by_words(modules, module);
}

static void set_name(struct allocator *allocator, const struct modules *modules, const char *name) {
    allocator->name = name;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) {
            find_version(allocator, modules, &known[i]);
            return;
        }
}

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
            const char *name = name_of(modules, module);
            if (name) set_name(allocator, modules, name);
        }
    }
    if (allocator->module) return;
    allocator->within = modules->count ? name_by_words(modules, &modules->module[0]) : NULL;
    if (!allocator->libc) {
        if (allocator->within) allocator_take_within(allocator, modules);
        return;
    }
    allocator->module = allocator->libc;
    allocator->name = "glibc";
    memcpy(allocator->version, libc_version, sizeof libc_version);
}

void allocator_take_within(struct allocator *allocator, const struct modules *modules) {
    allocator->module = &modules->module[0];
    set_name(allocator, modules, allocator->within);
}

// ---- asking ----

static bool is_program(const struct modules *modules, const char *name) {
    const char *path = modules->count ? modules->module[0].name : "", *slash = strrchr(path, '/');
    return !strcmp(slash ? slash + 1 : path, name);
}

void allocator_ask(const struct allocator *allocator, const struct modules *modules, int pid, char *ask,
                   size_t room) {
    *ask = 0;
    if (!allocator->module) return;
    if (!strcmp(allocator->name, "jemalloc") &&
        (is_program(modules, "redis-server") || is_program(modules, "valkey-server"))) {
        snprintf(ask, room, "redis-cli MEMORY MALLOC-STATS (no other command is served meanwhile)");
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, allocator->name) && known[i].printer &&
            module_exports(allocator->module, known[i].printer)) {
            snprintf(
                ask, room,
                "gdb -p %d -batch -ex 'call (void)%s' (stops the process and runs this call in it, which "
                "waits for ever if a stopped thread holds a lock; the figures go to its standard error)",
                pid, known[i].call);
            return;
        }
}
