// SPDX-License-Identifier: Apache-2.0
#include "wrappers.h"

#include <ctype.h>
#include <stdio.h>
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

void bare_name(const char *function, char name[BARE_NAME_BYTES]) {
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

// Of "Type as Trait" the trait; NULL if there is none.
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
