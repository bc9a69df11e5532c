// SPDX-License-Identifier: Apache-2.0
#include "wrappers.h"

enum { BARE_NAME_BYTES = 1024 };

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool begins_with(const char *text, const char *beginning) {
    return !strncmp(text, beginning, strlen(beginning));
}

static bool is_letter(char c) { return isalnum((unsigned char)c) || c == '_'; }

static bool is_library(const char *name) {
    static const char *const begins[] = {"std::",     "__gnu_cxx::", "alloc::", "core::", "hashbrown::",
                                         "__rustc::", "__rust_",     "__rg_",   "__rdl_"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (begins_with(name, begins[i])) return true;
    return begins_with(name, "operator new") && !is_letter(name[strlen("operator new")]);
}

// rust/library/alloc/src/vec/mod.rs
static bool is_of_rust_sources(const char *file) {
    static const char library[] = "/library/";
    const char *at = strstr(file, library);
    if (!at) return false;
    const char *folder = at, *crate = at + strlen(library);
    while (folder > file && folder[-1] != '/') folder--;
    return begins_with(folder, "rust") &&
           (begins_with(crate, "alloc/") || begins_with(crate, "core/") || begins_with(crate, "std/"));
}

static bool is_library_file(const char *file) {
    const char *brown = strstr(file, "/hashbrown-");
    return strstr(file, "/include/c++/") || (begins_with(file, "/rustc/") && strstr(file, "/library/")) ||
           is_of_rust_sources(file) || (brown && strstr(brown, "/src/"));
}

// The end of the operator's name that begins there: of "operator<<(int)" that of "operator<<".
static const char *end_of_operator(const char *at) {
    at += strlen("operator");
    if (!strncmp(at, "()", 2)) return at + 2;
    while (*at && strchr("<>=-*", *at)) at++;
    return at;
}

// Without the arguments.
static void copy_bare(const char *function, char name[BARE_NAME_BYTES]) {
    size_t bytes = 0;
    int depth = 0;
    for (const char *at = function; *at && bytes < BARE_NAME_BYTES - 16; at++) {
        bool begins = at == function || !is_letter(at[-1]);
        if (begins && begins_with(at, "(anonymous namespace)")) {
            if (!depth) bytes += (size_t)sprintf(name + bytes, "{anonymous}");
            at += strlen("(anonymous namespace)") - 1;
        } else if (begins && begins_with(at, "operator") && !is_letter(at[strlen("operator")])) {
            const char *end = end_of_operator(at);
            if (!depth)
                bytes +=
                    (size_t)sprintf(name + bytes, end > at + strlen("operator") ? "operator{}" : "operator");
            at = end - 1;
        } else if (at[0] == '-' && at[1] == '>') {
            at++;
        } else if (*at == '<' || *at == '(') {
            depth++;
        } else if ((*at == '>' || *at == ')') && depth) {
            depth--;
        } else if (!depth) {
            name[bytes++] = *at;
        }
    }
    name[bytes] = 0;
}

static void cut_end(char *name, const char *end) {
    size_t bytes = strlen(name), end_bytes = strlen(end);
    if (bytes >= end_bytes && !strcmp(name + bytes - end_bytes, end)) name[bytes - end_bytes] = 0;
}

// Writes the name without return type, arguments and those of templates: of "int ns::pool<int>::get(int)" ns::pool::get.
// What does not fit is cut.
static void bare_name(const char *function, char name[BARE_NAME_BYTES]) {
    copy_bare(function, name);
    char *clone = strstr(name, " [");
    if (clone) *clone = 0;
    static const char *const ends[] = {" &&", " &", " volatile", " const"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) cut_end(name, ends[i]);
    // "operator new" has a blank within.
    char *space = NULL;
    for (char *at = name; *at; at++) {
        if (*at == ' ') space = at;
        if (begins_with(at, "operator") && (at == name || !is_letter(at[-1])) &&
            !is_letter(at[strlen("operator")]))
            break;
    }
    if (space) memmove(name, space + 1, strlen(space + 1) + 1);
}

// Where the "<" is closed that a name begins with; NULL if it is not.
static const char *closing(const char *name) {
    int depth = 0;
    for (const char *at = name; *at; at++) {
        depth += *at == '<';
        if (*at == '>' && at[-1] != '-' && !--depth) return at;
    }
    return NULL;
}

// The trait in "Type as Trait"; NULL if there is none.
static const char *trait_of(const char *inner, const char *end) {
    int depth = 0;
    for (const char *at = inner; at < end; at++) {
        if (!depth && begins_with(at, " as ")) return at + strlen(" as ");
        depth += (*at == '<') - (*at == '>' && at[-1] != '-');
    }
    return NULL;
}

// Has a program given the type its name? Not u8, [T], or a parameter T.
static bool is_program_type(const char *type, const char *end) {
    while (type < end && strchr("&*[(", *type)) type++;
    if (begins_with(type, "mut ")) type += 4;
    else if (begins_with(type, "const ")) type += 6;
    const char *at = type;
    while (at < end && is_letter(*at)) at++;
    if (at == type || isdigit((unsigned char)*type)) return false;
    return (end - at >= 2 && begins_with(at, "::")) ||
           (at == end && at - type >= 2 && isupper((unsigned char)*type));
}

static bool ends_with(const char *name, size_t *bytes, const char *end) {
    size_t end_bytes = strlen(end);
    if (*bytes < end_bytes || strncasecmp(name + *bytes - end_bytes, end, end_bytes) != 0) return false;
    *bytes -= end_bytes;
    return true;
}

// xmalloc, pool_alloc_n, allocate, sqlite3MallocZero, my_strndup.
static bool has_allocators_name(const char *name) {
    static const char *const more[] = {"",       "0",     "_array", "array", "_zeroed",
                                       "zeroed", "_zero", "zero",   "_n",    "n"};
    static const char *const copies[] = {"strdup",   "str_dup",   "strndup", "str_ndup",
                                         "strn_dup", "str_n_dup", "memdup",  "mem_dup"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        size_t bytes = strlen(name);
        if (ends_with(name, &bytes, more[i]) &&
            (ends_with(name, &bytes, "allocate") || ends_with(name, &bytes, "alloc")))
            return true;
    }
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        size_t bytes = strlen(name);
        if (ends_with(name, &bytes, copies[i])) return true;
    }
    return false;
}

// "<Type as Trait>::method" of Rust. What a library's trait does for a type that is no program's can only be the library's.
static bool is_wrapping_method(const char *function, const char *end) {
    char name[BARE_NAME_BYTES];
    const char *type = function + 1, *trait = trait_of(type, end),
               *type_end = trait ? trait - strlen(" as ") : end;
    const char *method = end + 1;
    while (*method == ':') method++;
    bare_name(method, name);
    return has_allocators_name(name) || is_library(type) ||
           (trait && is_library(trait) && !is_program_type(type, type_end));
}

bool is_wrapper(const char *function, const char *file) {
    char name[BARE_NAME_BYTES];
    if (is_library_file(file)) return true;
    const char *end = *function == '<' ? closing(function) : NULL;
    if (end) return is_wrapping_method(function, end);
    bare_name(function, name);
    return has_allocators_name(name) || is_library(name);
}

// "libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2", "libc.musl-x86_64.so.1".
bool is_runtime_library(const char *module) {
    static const char *const names[] = {"ld",    "libc",      "libpthread", "libdl",
                                        "librt", "libstdc++", "libc++",     "libc++abi"};
    const char *slash = strrchr(module, '/'), *base = slash ? slash + 1 : module;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!begins_with(base, names[i])) continue;
        const char *more = base + strlen(names[i]);
        bool version = *more == '-' && isdigit((unsigned char)more[1]);
        bool machine =
            begins_with(more, "-linux") || begins_with(more, "-musl") || begins_with(more, ".musl");
        if (begins_with(more, ".so") || ((version || machine) && strstr(more, ".so"))) return true;
    }
    return false;
}

enum { CALLERS_MANY = 8, CALLERS_FEW = 2 };

struct search {
    const struct ht_site_table *table;
    const bool *skipped;
    bool *named;         // by location
    bool *passed;        // by location: taken for a wrapper, perhaps not for good
    uint32_t *head;      // by site: its first frame outside wrappers; 0: none
    uint32_t *stacks;    // by location: how many have it as their head
    uint32_t *seen_for;  // by location: of which head, plus one, it was seen to be a caller
};

static uint32_t location_of(const struct search *search, uint32_t caller) {
    return search->table->callers[caller - 1].location;
}

static uint32_t module_of(const struct search *search, uint32_t caller) {
    return search->table->locations[location_of(search, caller)].module;
}

static uint32_t outside(const struct search *search, uint32_t caller) {
    while (caller &&
           (search->skipped[location_of(search, caller)] || search->passed[location_of(search, caller)]))
        caller = search->table->callers[caller - 1].parent;
    return caller;
}

// The location that heads more than half of a module's stacks, if it has no name; UINT32_MAX: there is none.
static uint32_t find_head(const struct search *search, uint32_t module) {
    const struct ht_site_table *table = search->table;
    uint32_t all = 0, found = UINT32_MAX;
    memset(search->stacks, 0, table->locations_count * sizeof *search->stacks);
    for (size_t i = 0; i < table->sites_count; i++) {
        search->head[i] = outside(search, search->head[i]);
        if (!search->head[i] || module_of(search, search->head[i]) != module) continue;
        all++;
        search->stacks[location_of(search, search->head[i])]++;
    }
    for (uint32_t i = 0; i < table->locations_count; i++)
        if (search->stacks[i] > all / 2) found = i;
    return found == UINT32_MAX || search->named[found] ? UINT32_MAX : found;
}

static uint32_t count_callers(const struct search *search, uint32_t head) {
    const struct ht_site_table *table = search->table;
    uint32_t count = 0;
    for (size_t i = 0; i < table->sites_count; i++) {
        if (!search->head[i] || location_of(search, search->head[i]) != head) continue;
        uint32_t parent = table->callers[search->head[i] - 1].parent;
        if (!parent || search->seen_for[location_of(search, parent)] == head + 1) continue;
        search->seen_for[location_of(search, parent)] = head + 1;
        count++;
    }
    return count;
}

static void search_module(const struct search *search, uint32_t module, bool *skipped) {
    size_t locations = search->table->locations_count;
    memset(search->passed, 0, locations * sizeof *search->passed);
    memset(search->seen_for, 0, locations * sizeof *search->seen_for);
    for (size_t i = 0; i < search->table->sites_count; i++) search->head[i] = search->table->sites[i].caller;
    for (;;) {
        uint32_t head = find_head(search, module);
        if (head == UINT32_MAX) return;
        uint32_t callers = count_callers(search, head);
        search->passed[head] = true;
        if (callers >= CALLERS_MANY)
            for (size_t i = 0; i < locations; i++) skipped[i] |= search->passed[i];
        else if (callers > CALLERS_FEW) return;
    }
}

// By module, how many stacks it heads. NULL for want of memory.
static uint32_t *count_stacks(const struct search *search, uint32_t *modules) {
    const struct ht_site_table *table = search->table;
    *modules = 0;
    for (size_t i = 0; i < table->locations_count; i++)
        if (table->locations[i].module > *modules) *modules = table->locations[i].module;
    uint32_t *stacks = calloc((size_t)*modules + 1, sizeof *stacks);
    for (size_t i = 0; stacks && i < table->sites_count; i++) {
        uint32_t head = outside(search, table->sites[i].caller);
        if (head) stacks[module_of(search, head)]++;
    }
    return stacks;
}

bool nameless_wrappers_add(const struct ht_site_table *table, bool *skipped) {
    size_t locations = table->locations_count + 1;
    uint32_t modules = 0, *stacks = NULL;
    struct search search = {.table = table,
                            .skipped = skipped,
                            .named = calloc(locations, sizeof(bool)),
                            .passed = calloc(locations, sizeof(bool)),
                            .head = calloc(table->sites_count + 1, sizeof(uint32_t)),
                            .stacks = calloc(locations, sizeof(uint32_t)),
                            .seen_for = calloc(locations, sizeof(uint32_t))};
    bool memory = search.named && search.passed && search.head && search.stacks && search.seen_for &&
                  (stacks = count_stacks(&search, &modules));
    for (size_t i = 0; memory && i < table->names_count; i++)
        search.named[table->names[i].location] |= table->names[i].function != 0;
    // From 1: code of no module has no other in common.
    for (uint32_t module = 1; memory && module <= modules; module++)
        if (stacks[module] >= CALLERS_MANY) search_module(&search, module, skipped);
    free(stacks);
    free(search.named);
    free(search.passed);
    free(search.head);
    free(search.stacks);
    free(search.seen_for);
    return memory;
}
