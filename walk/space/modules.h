// SPDX-License-Identifier: Apache-2.0
// The program and libraries that a process has mapped, with the symbols that they export, read from its memory: a path
// may name another file by now, or lie in another mount namespace.
#ifndef HEAPTAPE_MODULES_H
#define HEAPTAPE_MODULES_H

#include <elf.h>

#include "space.h"

struct module {
    const char *name;  // the mapping's
    uint64_t start, end, bias;
    Elf64_Sym *symbols;  // those that have a name and an address
    size_t symbol_count;
    char *strings;
    size_t string_bytes;
};

struct modules {
    const struct space *space;
    struct module *module;
    size_t count, room;
};

// 0 or -1 with error, for want of memory. A file that is no sound ELF is left out.
int modules_read(struct modules *modules, const struct space *space, struct ht_error *error);
void modules_free(struct modules *modules);

const struct module *modules_at(const struct modules *modules, uint64_t address);
// Whether it exports that.
bool module_exports(const struct module *module, const char *symbol);
// Where it is, or 0.
uint64_t module_address_of(const struct module *module, const char *symbol);
// The exported symbol whose bytes the address is among, or NULL.
const char *module_symbol_at(const struct module *module, uint64_t address);
// A text among the module's read-only bytes, and up to `room` - 1 characters behind it. False: there is none.
bool module_find_text(const struct modules *modules, const struct module *module, const char *text,
                      char *found, size_t room);

#endif
