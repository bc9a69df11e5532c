// SPDX-License-Identifier: Apache-2.0
// The functions of a module by address, from its symbol tables.
#ifndef HEAPTAPE_MODULE_SYMBOLS_H
#define HEAPTAPE_MODULE_SYMBOLS_H

#include <elfutils/libdwfl.h>

struct module_symbol {
    uint64_t start, end;  // end: where the next one begins, if it has no size
    const char *name;
    bool sized, local;
};

struct module_symbols {
    struct module_symbol *symbol;
    size_t count, room;
};

// The names are the module's. None for want of memory.
void module_symbols_read(struct module_symbols *symbols, Dwfl_Module *module);
void module_symbols_free(struct module_symbols *symbols);

// NULL where there is none.
const char *module_symbols_find(const struct module_symbols *symbols, uint64_t address);

#endif
