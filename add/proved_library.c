// SPDX-License-Identifier: Apache-2.0
#include "proved_library.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "added_allocators.h"
#include "elf_file.h"

enum { CODE_BYTES = 16 };

bool library_is_file_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    return *name && *name != '.' && *name != '-' && strlen(name) < LIBRARY_NAME_BYTES &&
           !name[strspn(name, letters)] && strcmp(name, HT_ADDED_MANIFEST);
}

// What of its symbols counts.
struct signs {
    bool malloc, free;
    bool known[64];  // the function that only this kind has, by the kind's place in ht_allocators
};

// Those that are another build of a kind, or that only a folder tells from their like, have no such function of their own.
static bool is_told_by_function(const struct ht_allocator *kind) {
    return kind->known_by && !kind->build_of && !kind->folder && !kind->is_floor;
}

static void look_at(void *context, const char *name) {
    struct signs *signs = context;
    if (!strcmp(name, "malloc")) signs->malloc = true;
    if (!strcmp(name, "free")) signs->free = true;
    for (size_t i = 0; ht_allocators[i] && i < sizeof signs->known; i++)
        if (is_told_by_function(ht_allocators[i]) && !strcmp(name, ht_allocators[i]->known_by))
            signs->known[i] = true;
}

// The one kind that all signs point to.
static const struct ht_allocator *kind_of(const struct signs *signs) {
    const struct ht_allocator *found = NULL;
    for (size_t i = 0; ht_allocators[i] && i < sizeof signs->known; i++) {
        if (!signs->known[i]) continue;
        if (found) return NULL;
        found = ht_allocators[i];
    }
    return found;
}

// ---- versions ----

// Digits with dots between, as at the beginning of "2.36." and "5.3.0-0-g"; 0 if there is no dot among them.
static size_t version_length(const char *at, const char *end) {
    size_t length = 0;
    while (at + length < end && (isdigit((unsigned char)at[length]) || at[length] == '.')) length++;
    while (length && at[length - 1] == '.') length--;
    return length && *at != '.' && memchr(at, '.', length) ? length : 0;
}

// Every place of the pattern must say the same.
static void version_by_text(const char *data, uint64_t bytes, const char *pattern,
                            struct proved_library *library) {
    size_t before = strcspn(pattern, "#");
    const char *after = pattern + before + 1, *end = data + bytes;
    for (const char *at = data; at < end; at++) {
        const char *start = before ? memmem(at, (size_t)(end - at), pattern, before) : at;
        if (!start) return;
        at = start;
        size_t length = version_length(start + before, end);
        const char *rest = start + before + length;
        if (!length || length >= sizeof library->version || (!before && at > data && at[-1]) ||
            strncmp(rest, after, strlen(after)))  // read_only_data ends in a zero
            continue;
        if (*library->version &&
            (strlen(library->version) != length || memcmp(library->version, start + before, length))) {
            *library->version = 0;
            return;
        }
        snprintf(library->version, sizeof library->version, "%.*s", (int)length, start + before);
        snprintf(library->evidence, sizeof library->evidence, "the text of its version in its data");
    }
}

// What a function returns that does nothing but return a number.
static bool returned_number(const uint8_t *code, uint64_t bytes, unsigned *number) {
#if defined __x86_64__
    static const uint8_t branch_target[] = {0xf3, 0x0f, 0x1e, 0xfa}, frame[] = {0x55, 0x48, 0x89, 0xe5};
    size_t at = bytes > sizeof branch_target && !memcmp(code, branch_target, sizeof branch_target)
                    ? sizeof branch_target
                    : 0;
    bool has_frame = bytes > at + sizeof frame && !memcmp(code + at, frame, sizeof frame);
    at += has_frame ? sizeof frame : 0;
    size_t end = at + 5 + has_frame;  // mov $number,%eax; and pop %rbp
    if (bytes <= end || code[at] != 0xb8 || (has_frame && code[end - 1] != 0x5d) || code[end] != 0xc3)
        return false;
    memcpy(number, code + at + 1, sizeof *number);
    return true;
#elif defined __aarch64__
    uint32_t word[3] = {0};
    memcpy(word, code, bytes < sizeof word ? bytes : sizeof word);
    size_t at = word[0] == 0xd503245f ? 1 : 0;  // bti c
    if ((word[at] & 0xffe0001f) != 0x52800000 || word[at + 1] != 0xd65f03c0)
        return false;  // mov w0, #number; ret
    *number = word[at] >> 5 & 0xffff;
    return true;
#else
    (void)code, (void)bytes, (void)number;
    return false;
#endif
}

struct wanted {
    const char *name;
    uint64_t address;
};

static void find_function(void *context, const struct elf_function *function) {
    struct wanted *wanted = context;
    if (!strcmp(function->name, wanted->name)) wanted->address = function->address;
}

static void version_by_number(const struct elf_file *elf, const char *symbol,
                              struct proved_library *library) {
    struct wanted wanted = {.name = symbol};
    unsigned number = 0;
    elf_file_each_function(elf, SHT_DYNSYM, find_function, &wanted);
    uint64_t bytes = CODE_BYTES;
    uint8_t *code = NULL;
    // It may be the last one of its segment.
    while (wanted.address && bytes && !(code = elf_file_at_address(elf, wanted.address, bytes))) bytes--;
    if (code && returned_number(code, bytes, &number)) {
        ht_version_of_number(number, library->version);
        snprintf(library->evidence, sizeof library->evidence, "the code of %s()", symbol);
    }
    free(code);
}

static void version_by_texts(const struct elf_file *elf, const char *pattern,
                             struct proved_library *library) {
    uint64_t bytes;
    char *data = elf_file_read_only_data(elf, &bytes);
    if (data) version_by_text(data, bytes, pattern, library);
    free(data);
}

static void prove_version(const struct elf_file *elf, struct proved_library *library) {
    const struct ht_allocator *kind = library->kind;
    if (kind->version_type && !strcmp(kind->version_type, "number"))
        version_by_number(elf, kind->version_symbol, library);
    else if (kind->version_text) version_by_texts(elf, kind->version_text, library);
}

// ---- the file ----

static void take_needed(const struct elf_file *elf, struct proved_library *library) {
    const char *name;
    for (unsigned i = 0;
         library->needed_count < LIBRARY_NEEDED_MAX && (name = elf_file_dynamic_string(elf, DT_NEEDED, i));
         i++)
        if (library_is_file_name(name)) strcpy(library->needed[library->needed_count++], name);
}

// The newest GLIBC_2.N that the file names; it names them among its dynamic strings.
static void take_libc(const struct elf_file *elf, struct proved_library *library) {
    static const char prefix[] = "GLIBC_2.";
    for (uint64_t at = 0; at < elf->dynamic_string_bytes; at += strlen(elf->dynamic_strings + at) + 1) {
        const char *text = elf->dynamic_strings + at;
        if (strncmp(text, prefix, sizeof prefix - 1) || strlen(text) >= sizeof library->libc) continue;
        const char *version = strchr(text, '_') + 1;
        if (strverscmp(version, library->libc) > 0) strcpy(library->libc, version);
    }
}

// Whether the file has all that a loader would map.
static bool can_be_mapped(const struct elf_file *elf) {
    unsigned mapped = 0;
    for (unsigned i = 0; i < elf->segments; i++) {
        const Elf64_Phdr *segment = &elf->segment[i];
        if (segment->p_type != PT_LOAD) continue;
        if (segment->p_offset > elf->bytes || segment->p_filesz > elf->bytes - segment->p_offset)
            return false;
        mapped++;
    }
    return mapped > 0;
}

static enum library_sort sort_of(const struct elf_file *elf, bool readable) {
    if (memcmp(elf->header.e_ident, ELFMAG, SELFMAG)) return LIBRARY_NONE;
    if (!readable || !elf_file_is_native(elf)) return LIBRARY_FOREIGN;
    return elf->header.e_type == ET_DYN && can_be_mapped(elf) ? LIBRARY_HERE : LIBRARY_NONE;
}

void library_prove(int fd, struct proved_library *library) {
    struct elf_file elf;
    struct signs signs = {0};
    char interpreter[16];
    *library = (struct proved_library){.sort = LIBRARY_NONE};
    library->sort = sort_of(&elf, elf_file_open(&elf, fd));
    if (library->sort == LIBRARY_HERE) {
        const char *name = elf_file_dynamic_string(&elf, DT_SONAME, 0);
        if (name && library_is_file_name(name)) strcpy(library->name, name);
        take_needed(&elf, library);
        if (elf.dynamic_strings) take_libc(&elf, library);
        elf_file_each_symbol(&elf, SHT_DYNSYM, look_at, &signs);
        library->has_malloc = signs.malloc && signs.free;
        library->is_loader = elf.header.e_entry && !strncmp(library->name, "ld", 2) &&
                             !library->needed_count &&
                             !elf_file_interpreter(&elf, interpreter, sizeof interpreter);
        library->kind = library->has_malloc ? kind_of(&signs) : NULL;
        if (library->kind) prove_version(&elf, library);
    }
    elf_file_close(&elf);
}
