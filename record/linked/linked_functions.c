// SPDX-License-Identifier: Apache-2.0
#include "linked_functions.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_calls.h"
#include "ops.h"

// A function's name behind its family's prefix, and its arguments by place.
struct row {
    const char *name;
    struct ht_hook_shape shape;
};

enum { NO = HT_HOOK_NO_ARGUMENT };
#define ALLOCATES(function, count, size, alignment)                                                          \
    {HT_HOOK_ALLOCATES, HT_HOOK_PLAIN, function, NO, count, size, alignment}
#define RESIZES(function, count, size) {HT_HOOK_RESIZES, HT_HOOK_PLAIN, function, 0, count, size, NO}
#define RELEASES(function, size, alignment)                                                                  \
    {HT_HOOK_RELEASES, HT_HOOK_PLAIN, function, 0, NO, size, alignment}
#define LAYOUT(function, size, alignment)                                                                    \
    {HT_HOOK_ALLOCATES, HT_HOOK_LAYOUT, function, NO, NO, size, alignment}
#define ASKS {HT_HOOK_ASKS, HT_HOOK_PLAIN, HT_USABLE_SIZE, 0, NO, NO, NO}

#define CONTROLS(number, operand) {HT_HOOK_CONTROLS, HT_HOOK_PLAIN, number, NO, NO, operand, NO}

static const struct row standard[] = {
    {"malloc", ALLOCATES(HT_MALLOC, NO, 0, NO)},
    {"calloc", ALLOCATES(HT_CALLOC, 0, 1, NO)},
    {"realloc", RESIZES(HT_REALLOC, NO, 1)},
    {"reallocarray", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"free", RELEASES(HT_FREE, NO, NO)},
    {"cfree", RELEASES(HT_CFREE, NO, NO)},
    {"free_sized", RELEASES(HT_FREE_SIZED, 1, NO)},
    {"free_aligned_sized", RELEASES(HT_FREE_ALIGNED_SIZED, 2, 1)},
    {"posix_memalign", {HT_HOOK_FILLS, HT_HOOK_PLAIN, HT_POSIX_MEMALIGN, 0, NO, 2, 1}},
    {"aligned_alloc", ALLOCATES(HT_ALIGNED_ALLOC, NO, 1, 0)},
    {"memalign", ALLOCATES(HT_MEMALIGN, NO, 1, 0)},
    {"valloc", ALLOCATES(HT_VALLOC, NO, 0, NO)},
    {"pvalloc", ALLOCATES(HT_PVALLOC, NO, 0, NO)},
    {"malloc_usable_size", ASKS},
    {0}};

static const struct row jemallocs[] = {
    {"sallocx", ASKS},
    {"mallctl", CONTROLS(HT_CTL_MALLCTL, NO)},
    {"mallocx", {HT_HOOK_ALLOCATES, HT_HOOK_FLAGS, HT_MALLOC, NO, NO, 0, 1}},
    {"rallocx", RESIZES(HT_REALLOC, NO, 1)},
    {"xallocx", {HT_HOOK_STRETCHES, HT_HOOK_PLAIN, HT_REALLOC, 0, NO, 1, NO}},
    {"dallocx", RELEASES(HT_FREE, NO, NO)},
    {"sdallocx", {HT_HOOK_RELEASES, HT_HOOK_FLAGS, HT_FREE_SIZED, 0, NO, 1, 2}},
    {0}};

static const struct row mimallocs[] = {
    {"usable_size", ASKS},
    {"collect", CONTROLS(HT_CTL_MI_COLLECT, 0)},
    {"malloc_size", ASKS},
    {"malloc_small", ALLOCATES(HT_MALLOC, NO, 0, NO)},
    {"zalloc", ALLOCATES(HT_CALLOC, NO, 0, NO)},
    {"zalloc_small", ALLOCATES(HT_CALLOC, NO, 0, NO)},
    {"mallocn", ALLOCATES(HT_MALLOC, 0, 1, NO)},
    {"umalloc", ALLOCATES(HT_MALLOC, NO, 0, NO)},
    {"uzalloc", ALLOCATES(HT_CALLOC, NO, 0, NO)},
    {"ucalloc", ALLOCATES(HT_CALLOC, 0, 1, NO)},
    {"urealloc", RESIZES(HT_REALLOC, NO, 1)},
    {"ufree", RELEASES(HT_FREE, NO, NO)},
    {"umalloc_small", ALLOCATES(HT_MALLOC, NO, 0, NO)},
    {"uzalloc_small", ALLOCATES(HT_CALLOC, NO, 0, NO)},
    {"ufree_small", RELEASES(HT_FREE, NO, NO)},
    {"free_small", RELEASES(HT_FREE, NO, NO)},
    {"free_small_nonnull", RELEASES(HT_FREE, NO, NO)},
    {"free_small_local", RELEASES(HT_FREE, NO, NO)},
    {"free_small_local_nonnull", RELEASES(HT_FREE, NO, NO)},
    {"malloc_aligned", LAYOUT(HT_MALLOC, 0, 1)},
    {"malloc_aligned_at", ALLOCATES(HT_ALIGNED_ALLOC, NO, 0, 1)},
    {"zalloc_aligned", LAYOUT(HT_CALLOC, 0, 1)},
    {"zalloc_aligned_at", ALLOCATES(HT_ALIGNED_ALLOC, NO, 0, 1)},
    {"umalloc_aligned", LAYOUT(HT_MALLOC, 0, 1)},
    {"uzalloc_aligned", LAYOUT(HT_CALLOC, 0, 1)},
    {"calloc_aligned", ALLOCATES(HT_ALIGNED_ALLOC, 0, 1, 2)},
    {"calloc_aligned_at", ALLOCATES(HT_ALIGNED_ALLOC, 0, 1, 2)},
    {"rezalloc", RESIZES(HT_REALLOC, NO, 1)},
    {"reallocf", RESIZES(HT_REALLOC, NO, 1)},
    {"reallocn", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"recalloc", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"realloc_aligned", RESIZES(HT_REALLOC, NO, 1)},
    {"realloc_aligned_at", RESIZES(HT_REALLOC, NO, 1)},
    {"rezalloc_aligned", RESIZES(HT_REALLOC, NO, 1)},
    {"rezalloc_aligned_at", RESIZES(HT_REALLOC, NO, 1)},
    {"recalloc_aligned", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"recalloc_aligned_at", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"aligned_recalloc", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"aligned_offset_recalloc", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"expand", RESIZES(HT_REALLOC, NO, 1)},
    {"free_size", RELEASES(HT_FREE_SIZED, 1, NO)},
    {"free_size_aligned", RELEASES(HT_FREE_ALIGNED_SIZED, 1, 2)},
    {"free_aligned", RELEASES(HT_FREE, NO, NO)},
    {"new", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"new_nothrow", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"new_n", ALLOCATES(HT_NEW, 0, 1, NO)},
    {"new_aligned", ALLOCATES(HT_NEW_ALIGNED, NO, 0, 1)},
    {"new_aligned_nothrow", ALLOCATES(HT_NEW_ALIGNED, NO, 0, 1)},
    {"new_realloc", RESIZES(HT_REALLOC, NO, 1)},
    {"new_reallocn", RESIZES(HT_REALLOCARRAY, 1, 2)},
    {"alloc_new", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"alloc_new_nothrow", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"alloc_new_n", ALLOCATES(HT_NEW, 0, 1, NO)},
    {0},
};

static const struct row tcmallocs[] = {
    {"malloc_skip_new_handler", ALLOCATES(HT_MALLOC, NO, 0, NO)},
    {"new", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"new_nothrow", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"newarray", ALLOCATES(HT_NEW_ARRAY, NO, 0, NO)},
    {"newarray_nothrow", ALLOCATES(HT_NEW_ARRAY, NO, 0, NO)},
    {"new_aligned", ALLOCATES(HT_NEW_ALIGNED, NO, 0, 1)},
    {"new_aligned_nothrow", ALLOCATES(HT_NEW_ALIGNED, NO, 0, 1)},
    {"newarray_aligned", ALLOCATES(HT_NEW_ARRAY_ALIGNED, NO, 0, 1)},
    {"newarray_aligned_nothrow", ALLOCATES(HT_NEW_ARRAY_ALIGNED, NO, 0, 1)},
    {"delete", RELEASES(HT_DELETE, NO, NO)},
    {"delete_nothrow", RELEASES(HT_DELETE, NO, NO)},
    {"deletearray", RELEASES(HT_DELETE_ARRAY, NO, NO)},
    {"deletearray_nothrow", RELEASES(HT_DELETE_ARRAY, NO, NO)},
    {"delete_sized", RELEASES(HT_DELETE_SIZED, 1, NO)},
    {"deletearray_sized", RELEASES(HT_DELETE_ARRAY_SIZED, 1, NO)},
    {"delete_aligned", RELEASES(HT_DELETE_ALIGNED, NO, 1)},
    {"delete_aligned_nothrow", RELEASES(HT_DELETE_ALIGNED, NO, 1)},
    {"deletearray_aligned", RELEASES(HT_DELETE_ARRAY_ALIGNED, NO, 1)},
    {"deletearray_aligned_nothrow", RELEASES(HT_DELETE_ARRAY_ALIGNED, NO, 1)},
    {"delete_sized_aligned", RELEASES(HT_DELETE_SIZED_ALIGNED, 1, 2)},
    {"deletearray_sized_aligned", RELEASES(HT_DELETE_ARRAY_SIZED_ALIGNED, 1, 2)},
    {0}};

static const struct row rpmallocs[] = {
    {"malloc", ALLOCATES(HT_MALLOC, NO, 0, NO)},
    {"zalloc", ALLOCATES(HT_CALLOC, NO, 0, NO)},
    {"calloc", ALLOCATES(HT_CALLOC, 0, 1, NO)},
    {"realloc", RESIZES(HT_REALLOC, NO, 1)},
    {"aligned_realloc", RESIZES(HT_REALLOC, NO, 2)},
    {"aligned_alloc", ALLOCATES(HT_ALIGNED_ALLOC, NO, 1, 0)},
    {"aligned_calloc", ALLOCATES(HT_ALIGNED_ALLOC, 1, 2, 0)},
    {"memalign", ALLOCATES(HT_MEMALIGN, NO, 1, 0)},
    {"posix_memalign", {HT_HOOK_FILLS, HT_HOOK_PLAIN, HT_POSIX_MEMALIGN, 0, NO, 2, 1}},
    {"free", RELEASES(HT_FREE, NO, NO)},
    {0}};

static const struct row extensions[] = {{"ReleaseFreeMemory", CONTROLS(HT_CTL_RELEASE_FREE_MEMORY, NO)},
                                        {"ReleaseToSystem", CONTROLS(HT_CTL_RELEASE_TO_SYSTEM, 0)},
                                        {0}};

// The crate snmalloc-rs has names that say Rust, and arguments in another order.
static const struct row snmallocs[] = {{"rust_alloc", LAYOUT(HT_MALLOC, 1, 0)},
                                       {"rust_alloc_zeroed", LAYOUT(HT_CALLOC, 1, 0)},
                                       {"rust_realloc", RESIZES(HT_REALLOC, NO, 3)},
                                       {"rust_dealloc", RELEASES(HT_FREE, NO, NO)},
                                       {0}};

// These stand between Rust's library and whatever a program chose by #[global_allocator].
static const struct row rusts[] = {{"alloc", LAYOUT(HT_MALLOC, 0, 1)},
                                   {"alloc_zeroed", LAYOUT(HT_CALLOC, 0, 1)},
                                   {"realloc", RESIZES(HT_REALLOC, NO, 3)},
                                   {"dealloc", RELEASES(HT_FREE, NO, NO)},
                                   {0}};

static const struct row operators[] = {
    {"_Znwm", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"_ZnwmRKSt9nothrow_t", ALLOCATES(HT_NEW, NO, 0, NO)},
    {"_Znam", ALLOCATES(HT_NEW_ARRAY, NO, 0, NO)},
    {"_ZnamRKSt9nothrow_t", ALLOCATES(HT_NEW_ARRAY, NO, 0, NO)},
    {"_ZnwmSt11align_val_t", ALLOCATES(HT_NEW_ALIGNED, NO, 0, 1)},
    {"_ZnwmSt11align_val_tRKSt9nothrow_t", ALLOCATES(HT_NEW_ALIGNED, NO, 0, 1)},
    {"_ZnamSt11align_val_t", ALLOCATES(HT_NEW_ARRAY_ALIGNED, NO, 0, 1)},
    {"_ZnamSt11align_val_tRKSt9nothrow_t", ALLOCATES(HT_NEW_ARRAY_ALIGNED, NO, 0, 1)},
    {"_ZdlPv", RELEASES(HT_DELETE, NO, NO)},
    {"_ZdlPvRKSt9nothrow_t", RELEASES(HT_DELETE, NO, NO)},
    {"_ZdaPv", RELEASES(HT_DELETE_ARRAY, NO, NO)},
    {"_ZdaPvRKSt9nothrow_t", RELEASES(HT_DELETE_ARRAY, NO, NO)},
    {"_ZdlPvm", RELEASES(HT_DELETE_SIZED, 1, NO)},
    {"_ZdaPvm", RELEASES(HT_DELETE_ARRAY_SIZED, 1, NO)},
    {"_ZdlPvSt11align_val_t", RELEASES(HT_DELETE_ALIGNED, NO, 1)},
    {"_ZdlPvSt11align_val_tRKSt9nothrow_t", RELEASES(HT_DELETE_ALIGNED, NO, 1)},
    {"_ZdaPvSt11align_val_t", RELEASES(HT_DELETE_ARRAY_ALIGNED, NO, 1)},
    {"_ZdaPvSt11align_val_tRKSt9nothrow_t", RELEASES(HT_DELETE_ARRAY_ALIGNED, NO, 1)},
    {"_ZdlPvmSt11align_val_t", RELEASES(HT_DELETE_SIZED_ALIGNED, 1, 2)},
    {"_ZdaPvmSt11align_val_t", RELEASES(HT_DELETE_ARRAY_SIZED_ALIGNED, 1, 2)},
    {0}};

// A name of a family: what it begins with, and the tables of what may follow. A more special beginning comes first.
static const struct naming {
    const char *prefix;
    enum linked_family family;
    const struct row *rows, *more_rows;
    bool names_heap;  // by an argument before all others
} namings[] = {{"mi_heap_", LINKED_MIMALLOC, standard, mimallocs, true},
               {"mi_theap_", LINKED_MIMALLOC, standard, mimallocs, true},
               {"mi_", LINKED_MIMALLOC, standard, mimallocs, false},
               {"_rjem_", LINKED_JEMALLOC, standard, jemallocs, false},
               {"je_", LINKED_JEMALLOC, standard, jemallocs, false},
               {"jemalloc_", LINKED_JEMALLOC, standard, jemallocs, false},
               {"MallocExtension_", LINKED_TCMALLOC, extensions, NULL, false},
               {"tc_", LINKED_TCMALLOC, standard, tcmallocs, false},
               {"sn_", LINKED_SNMALLOC, snmallocs, NULL, false},
               {"rp", LINKED_RPMALLOC, rpmallocs, NULL, false},
               {"__rust_", LINKED_RUST, rusts, NULL, false},
               {"_Z", LINKED_OPERATORS, NULL, NULL, false},
               {"", LINKED_JEMALLOC, jemallocs, NULL, false},
               {"", LINKED_PLAIN, standard, NULL, false}};

const char *linked_family_name(enum linked_family family) {
    static const char *const names[LINKED_FAMILIES] = {[LINKED_JEMALLOC] = "jemalloc",
                                                       [LINKED_MIMALLOC] = "mimalloc",
                                                       [LINKED_TCMALLOC] = "tcmalloc",
                                                       [LINKED_RPMALLOC] = "rpmalloc",
                                                       [LINKED_SNMALLOC] = "snmalloc"};
    return names[family];
}

static const struct ht_hook_shape *find_row(const struct row *rows, const char *name) {
    for (; rows && rows->name; rows++)
        if (!strcmp(rows->name, name)) return &rows->shape;
    return NULL;
}

// Some of mimalloc's functions take six arguments, the heap included.
static bool takes_six(const char *name) { return !strcmp(name, "recalloc_aligned_at"); }

// Makes it the same function with an argument before the others. One that is given a block needs no heap to free it.
static bool shift(struct ht_hook_shape *shape) {
    uint8_t *places[] = {&shape->block, &shape->count, &shape->size, &shape->alignment};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (*places[i] != HT_HOOK_NO_ARGUMENT) ++*places[i];
    return shape->kind == HT_HOOK_ALLOCATES || shape->kind == HT_HOOK_RESIZES;
}

// rustc's mangled names of today end as the plain ones of before: _RNvCs..._7___rustc12___rust_alloc
static const char *without_mangling(const char *name) {
    const char *rustc = strstr(name, "___rustc"), *plain = rustc ? strstr(rustc, "___rust_") : NULL;
    return plain ? plain + 1 : name;
}

bool linked_function(const char *name, enum linked_family *family, struct ht_hook_shape *shape, bool *fits) {
    name = without_mangling(name);
    for (size_t i = 0; i < sizeof namings / sizeof *namings; i++) {
        const struct naming *naming = &namings[i];
        size_t length = strlen(naming->prefix);
        if (strncmp(name, naming->prefix, length)) continue;
        const struct ht_hook_shape *found = naming->family == LINKED_OPERATORS
                                                ? find_row(operators, name)
                                                : find_row(naming->rows, name + length);
        if (!found) found = find_row(naming->more_rows, name + length);
        if (!found) continue;
        *shape = *found;
        *family = naming->family;
        *fits = !naming->names_heap || !takes_six(name + length);
        return !naming->names_heap || shift(shape);
    }
    return false;
}

// ---- the version ----

enum { COMMIT_DIGITS = 40, PARTS = 3 };

// Three numbers with dots between, at the beginning of a text. Returns its length, or 0.
static size_t three_numbers(const char *at, const char *end) {
    const char *start = at;
    for (int part = 0; part < PARTS; part++) {
        if (part && (at == end || *at++ != '.')) return 0;
        const char *digits = at;
        while (at < end && isdigit((unsigned char)*at)) at++;
        if (at == digits) return 0;
    }
    return (size_t)(at - start);
}

// jemalloc's: "5.3.0-1-ge13ca993e8cc...", a commit of git. A build without git says nothing ("0.0.0-0-g0").
static size_t version_of_jemalloc(const char *data, uint64_t bytes, const char **found) {
    const char *end = data + bytes;
    for (const char *at = data; (at = memmem(at, (size_t)(end - at), "-g", 2)); at += 2) {
        const char *start = at, *commit = at + 2;
        size_t digits = 0;
        while (digits < COMMIT_DIGITS && commit + digits < end && isxdigit((unsigned char)commit[digits]))
            digits++;
        while (start > data && start[-1]) start--;
        size_t length = three_numbers(start, at);
        if (digits != COMMIT_DIGITS || !length || start[length] != '-') continue;
        *found = start;
        return length;
    }
    return 0;
}

// tcmalloc's: "gperftools 2.10".
static size_t version_of_tcmalloc(const char *data, uint64_t bytes, const char **found) {
    static const char before[] = "gperftools ";
    const char *end = data + bytes, *at = memmem(data, bytes, before, sizeof before - 1);
    if (!at) return 0;
    *found = at + sizeof before - 1;
    size_t length = 0;
    while (*found + length < end && (isdigit((unsigned char)(*found)[length]) || (*found)[length] == '.'))
        length++;
    return length;
}

struct constant {
    const struct elf_file *elf;
    uint32_t value;  // 0: not found
};

// mimalloc's function does no more than return a constant: mov $value, %eax; ret, perhaps behind endbr64.
static void take_constant(void *context, const struct elf_function *function) {
    static const unsigned char landing[] = {0xf3, 0x0f, 0x1e, 0xfa};
    enum { MOVE = 0xb8, RETURN = 0xc3, CODE_BYTES = 6 };
    struct constant *constant = context;
    if (strcmp(function->name, "mi_version") || function->chosen_later) return;
    uint64_t bytes = CODE_BYTES + sizeof landing;
    unsigned char *code = elf_file_at_address(constant->elf, function->address, bytes), *at = code;
    if (code && !memcmp(at, landing, sizeof landing)) at += sizeof landing;
    if (code && at[0] == MOVE && at[CODE_BYTES - 1] == RETURN)
        memcpy(&constant->value, at + 1, sizeof constant->value);
    free(code);
}

// 209 is 2.0.9, 3206 is 3.2.6, 20303 is 2.3.3.
static void version_of_mimalloc(const struct elf_file *elf, char version[LINKED_VERSION_BYTES]) {
    struct constant constant = {.elf = elf};
    elf_file_each_function(elf, SHT_SYMTAB, take_constant, &constant);
    uint32_t number = constant.value,
             major = number < 1000    ? 100
                     : number < 10000 ? 1000
                                      : 10000,
             minor = number < 1000 ? 10 : 100;
    if (number >= 100 && number < 1000000)
        snprintf(version, LINKED_VERSION_BYTES, "%u.%u.%u", number / major, number % major / minor,
                 number % minor);
}

bool linked_version(const struct elf_file *elf, const char *name, char version[LINKED_VERSION_BYTES]) {
    uint64_t bytes;
    const char *found = NULL;
    size_t length = 0;
    version[0] = 0;
    if (!strcmp(name, "mimalloc")) version_of_mimalloc(elf, version);
    char *data = version[0] ? NULL : elf_file_read_only_data(elf, &bytes);
    if (data && !strcmp(name, "jemalloc")) length = version_of_jemalloc(data, bytes, &found);
    if (data && !strcmp(name, "tcmalloc")) length = version_of_tcmalloc(data, bytes, &found);
    if (length && length < LINKED_VERSION_BYTES)
        snprintf(version, LINKED_VERSION_BYTES, "%.*s", (int)length, found);
    free(data);
    return version[0] != 0;
}
