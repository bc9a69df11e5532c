// SPDX-License-Identifier: Apache-2.0
#include "module_symbols.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "sorted.h"

// Where several begin at one address, the one to be found comes last.
static int by_start(const void *a, const void *b) {
    const struct module_symbol *left = a, *right = b;
    if (left->start != right->start) return left->start > right->start ? 1 : -1;
    if (left->sized != right->sized) return left->sized ? 1 : -1;
    if (left->local != right->local) return left->local ? -1 : 1;
    return strcmp(right->name, left->name);
}

static void add(struct module_symbols *symbols, Dwfl_Module *module, int number) {
    GElf_Sym symbol;
    GElf_Addr address;
    GElf_Word section;
    const char *name = dwfl_module_getsym_info(module, number, &symbol, &address, &section, NULL, NULL);
    unsigned type = name ? GELF_ST_TYPE(symbol.st_info) : STT_NOTYPE;
    bool code = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!code || !*name || section == SHN_UNDEF) return;
    if (!ht_grow(&symbols->symbol, &symbols->room, symbols->count + 1, sizeof *symbols->symbol)) return;
    symbols->symbol[symbols->count++] =
        (struct module_symbol){.start = address,
                               .end = address + symbol.st_size,
                               .name = name,
                               .sized = symbol.st_size > 0,
                               .local = GELF_ST_BIND(symbol.st_info) == STB_LOCAL};
}

void module_symbols_read(struct module_symbols *symbols, Dwfl_Module *module) {
    int numbers = dwfl_module_getsymtab(module);
    *symbols = (struct module_symbols){0};
    for (int i = 1; i < numbers; i++) add(symbols, module, i);
    if (symbols->count) qsort(symbols->symbol, symbols->count, sizeof *symbols->symbol, by_start);
    for (size_t i = 0; i < symbols->count; i++)
        if (!symbols->symbol[i].sized)
            symbols->symbol[i].end = i + 1 < symbols->count ? symbols->symbol[i + 1].start : UINT64_MAX;
}

void module_symbols_free(struct module_symbols *symbols) {
    free(symbols->symbol);
    *symbols = (struct module_symbols){0};
}

const char *module_symbols_find(const struct module_symbols *symbols, uint64_t address) {
    enum { PASSED_MAX = 16 };  // smaller functions inside a larger one
    size_t behind = HT_FIRST_ABOVE(symbols->symbol, symbols->count, start, address);
    for (size_t i = behind; i > 0 && behind - i < PASSED_MAX; i--)
        if (address < symbols->symbol[i - 1].end) return symbols->symbol[i - 1].name;
    return NULL;
}
