// SPDX-License-Identifier: Apache-2.0
#include "module_names.h"

#include <dwarf.h>
#include <elfutils/libdwelf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dwarf_functions.h"
#include "grow.h"
#include "name_builder.h"
#include "sorted.h"

// ---- the functions of a module by address, from its symbol tables ----

struct module_symbol {
    uint64_t start, end;  // end: where the next one begins, if it has no size
    const char *name;
    bool sized, local;
};

struct module_symbols {
    struct module_symbol *symbol;
    size_t count, room;
};

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

// The names are the module's. None for want of memory.
static void module_symbols_read(struct module_symbols *symbols, Dwfl_Module *module) {
    int numbers = dwfl_module_getsymtab(module);
    *symbols = (struct module_symbols){0};
    for (int i = 1; i < numbers; i++) add(symbols, module, i);
    if (symbols->count) qsort(symbols->symbol, symbols->count, sizeof *symbols->symbol, by_start);
    for (size_t i = 0; i < symbols->count; i++)
        if (!symbols->symbol[i].sized)
            symbols->symbol[i].end = i + 1 < symbols->count ? symbols->symbol[i + 1].start : UINT64_MAX;
}

static void module_symbols_free(struct module_symbols *symbols) {
    free(symbols->symbol);
    *symbols = (struct module_symbols){0};
}

// NULL where there is none.
static const char *module_symbols_find(const struct module_symbols *symbols, uint64_t address) {
    enum { PASSED_MAX = 16 };  // smaller functions inside a larger one
    size_t behind = HT_FIRST_ABOVE(symbols->symbol, symbols->count, start, address);
    for (size_t i = behind; i > 0 && behind - i < PASSED_MAX; i--)
        if (address < symbols->symbol[i - 1].end) return symbols->symbol[i - 1].name;
    return NULL;
}

struct module {
    Dwfl *dwfl;
    Dwfl_Module *module;
    Dwarf *dwarf;
    Dwarf_Addr bias;  // of the addresses in the DWARF
    struct dwarf_functions functions;
    struct module_symbols symbols;
};

// ---- the files ----

static int open_file(const char *path) {
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat status;
    if (fd >= 0 && (fstat(fd, &status) || !S_ISREG(status.st_mode))) {
        close(fd);
        return -1;
    }
    return fd;
}

// What debuginfod's client has fetched for this user. Its library looks there only if it may ask a server too.
static int open_cached(const char *build_id, const char *kind) {
    const char *folder = getenv("DEBUGINFOD_CACHE_PATH"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char path[PATH_MAX];
    int length;
    if (folder && *folder) length = snprintf(path, sizeof path, "%s/%s/%s", folder, build_id, kind);
    else if (cache && *cache)
        length = snprintf(path, sizeof path, "%s/debuginfod_client/%s/%s", cache, build_id, kind);
    else
        length = snprintf(path, sizeof path, "%s/.cache/debuginfod_client/%s/%s", home ? home : "", build_id,
                          kind);
    return length < (int)sizeof path ? open_file(path) : -1;
}

static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word link_checksum, char **found) {
    int fd = dwfl_standard_find_debuginfo(module, data, name, base, file, link, link_checksum, found);
    const unsigned char *bits;
    GElf_Addr where;
    int bytes = fd < 0 ? dwfl_module_build_id(module, &bits, &where) : 0;
    if (bytes <= 0 || bytes > 64) return fd;
    char build_id[2 * 64 + 1];
    for (int i = 0; i < bytes; i++) snprintf(build_id + 2 * i, 3, "%02x", bits[i]);
    return open_cached(build_id, "debuginfo");
}

static bool has_build_id(Dwfl_Module *module, const char *build_id) {
    const unsigned char *bits;
    GElf_Addr where;
    int bytes = dwfl_module_build_id(module, &bits, &where);
    if (bytes < 0) bytes = 0;
    if (strlen(build_id) != 2 * (size_t)bytes) return false;
    for (int i = 0; i < bytes; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", bits[i]);
        if (memcmp(digits, build_id + 2 * i, 2)) return false;
    }
    return true;
}

// Takes the file, if it is the module. With base 0 its addresses are those of its symbols.
static bool take_file(struct module *module, int fd, const char *build_id) {
    static const Dwfl_Callbacks callbacks = {.find_debuginfo = find_debuginfo,
                                             .section_address = dwfl_offline_section_address};
    if (fd < 0) return false;
    if ((module->dwfl = dwfl_begin(&callbacks))) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        dwfl_report_begin(module->dwfl);
        module->module = dwfl_report_elf(module->dwfl, "module", path, fd, 0, true);
        if (module->module) fd = -1;
        dwfl_report_end(module->dwfl, NULL, NULL);
        if (module->module && has_build_id(module->module, build_id)) return true;
        dwfl_end(module->dwfl);
    }
    if (fd >= 0) close(fd);
    return false;
}

// The file where the recorded program had it; else a file of this build id among those with debugging information.
static bool find_file(struct module *module, const char *path, const char *build_id) {
    char debug[PATH_MAX];
    if (*path && take_file(module, open_file(path), build_id)) return true;
    if (strlen(build_id) < 3) return false;
    int length =
        snprintf(debug, sizeof debug, "/usr/lib/debug/.build-id/%.2s/%s.debug", build_id, build_id + 2);
    return (length < (int)sizeof debug && take_file(module, open_file(debug), build_id)) ||
           take_file(module, open_cached(build_id, "executable"), build_id) ||
           take_file(module, open_cached(build_id, "debuginfo"), build_id);
}

// ---- the names ----

static const char *linkage_name(Dwarf_Die *die) {
    Dwarf_Attribute attribute;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute))
        return dwarf_formstring(&attribute);
    return NULL;
}

// Functions of C++ that only their own file sees have no linkage name in the DWARF, but a symbol.
static const char *function_name(Dwarf_Die *die, const char *symbol) {
    const char *linkage = linkage_name(die), *plain = dwarf_diename(die);
    if (linkage) return linkage;
    return is_mangled(symbol) || !plain ? symbol : plain;
}

struct place {
    const char *file;
    int line;
};

static struct place place_at(const struct dwarf_unit *unit, Dwarf_Addr address) {
    Dwarf_Die die = unit->lines;
    Dwarf_Line *line = dwarf_getsrc_die(&die, address);
    struct place place = {.file = dwarf_linesrc(line, NULL, NULL)};
    if (place.file) dwarf_lineno(line, &place.line);
    return place;
}

static struct place place_of_call(const struct dwarf_unit *unit, Dwarf_Die *inlined) {
    Dwarf_Die die = unit->functions;
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word file, line;
    struct place place = {0};
    if (!dwarf_formudata(dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) &&
        !dwarf_getsrcfiles(&die, &files, NULL))
        place.file = dwarf_filesrc(files, file, NULL, NULL);
    if (place.file && !dwarf_formudata(dwarf_attr(inlined, DW_AT_call_line, &attribute), &line))
        place.line = (int)line;
    return place;
}

static void add_frame(struct name_builder *builder, uint32_t location, const char *function,
                      struct place place) {
    char text[DEMANGLED_BYTES_MAX];
    if (function || place.file)
        name_builder_add(builder, location, demangled(function, text), place.file,
                         place.line > 0 ? (uint32_t)place.line : 0);
}

static void add_location(struct module *module, struct name_builder *builder, uint32_t location,
                         uint64_t address) {
    Dwarf_Die inlined[DWARF_INLINED_MAX];
    Dwarf_Addr in_dwarf = address - module->bias;
    const char *symbol = module_symbols_find(&module->symbols, address);
    const struct dwarf_unit *unit = dwarf_functions_unit(&module->functions, in_dwarf);
    const struct dwarf_range *function = dwarf_functions_find(&module->functions, in_dwarf);
    struct place place = unit ? place_at(unit, in_dwarf) : (struct place){0};
    if (!function) {
        add_frame(builder, location, symbol, place);
        return;
    }
    unit = &module->functions.unit[function->unit];
    for (unsigned i = dwarf_functions_inlined(function, in_dwarf, inlined); i-- > 0;) {
        add_frame(builder, location, function_name(&inlined[i], NULL), place);
        place = place_of_call(unit, &inlined[i]);
    }
    Dwarf_Die die = function->function;
    add_frame(builder, location, function_name(&die, symbol), place);
}

// A return address lies behind its call, which may be the last instruction of a function or a line.
static uint64_t call_of(const struct ht_location *location) {
    return location->offset ? location->offset - 1 : 0;
}

void module_names_add(struct name_builder *builder, const char *path, const char *build_id,
                      const struct ht_location *locations, const uint32_t *wanted, size_t count) {
    struct module module = {0};
    if (!count || !find_file(&module, path, build_id)) return;
    module.dwarf = dwfl_module_getdwarf(module.module, &module.bias);
    dwarf_functions_open(&module.functions, module.dwarf);
    for (size_t i = 0; i < count; i++)
        dwarf_functions_want(&module.functions, call_of(&locations[wanted[i]]) - module.bias);
    dwarf_functions_ready(&module.functions);
    module_symbols_read(&module.symbols, module.module);
    for (size_t i = 0; i < count; i++)
        add_location(&module, builder, wanted[i], call_of(&locations[wanted[i]]));
    module_symbols_free(&module.symbols);
    dwarf_functions_close(&module.functions);
    dwfl_end(module.dwfl);
}

// ---- the build id of a file ----

static bool is_later(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

static bool read_build_id(int fd, char digits[BUILD_ID_DIGITS_BYTES]) {
    const void *id = NULL;
    elf_version(EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    ssize_t bytes = elf ? dwelf_elf_gnu_build_id(elf, &id) : 0;
    bool fits = bytes > 0 && 2 * bytes < BUILD_ID_DIGITS_BYTES;
    for (ssize_t i = 0; fits && i < bytes; i++)
        snprintf(digits + 2 * i, 3, "%02x", ((const unsigned char *)id)[i]);
    elf_end(elf);
    return fits;
}

bool file_build_id(const char *path, const struct timespec *not_after, char digits[BUILD_ID_DIGITS_BYTES]) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    bool is_old = fd >= 0 && !fstat(fd, &status) && S_ISREG(status.st_mode) &&
                  (!not_after || !is_later(&status.st_mtim, not_after));
    bool found = is_old && read_build_id(fd, digits);
    if (fd >= 0) close(fd);
    return found;
}
