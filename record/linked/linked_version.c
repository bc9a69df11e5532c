// SPDX-License-Identifier: Apache-2.0
#include "linked_version.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// jemalloc's: "5.3.0-1-ge13ca993e8cc...", a commit of git. Of a build without git it says nothing ("0.0.0-0-g0").
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
