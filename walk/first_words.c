// SPDX-License-Identifier: Apache-2.0
#include "first_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = 4 };

// The Itanium C++ ABI: the word before the table points at the type's description, whose second word at the type's name.
static bool class_name(const struct modules *modules, uint64_t table, char name[FIRST_WORD_BYTES]) {
    const struct space *space = modules->space;
    uint64_t description[2], type;
    static const char prefix[] = "_ZTS";
    if (table % 8 || !space_read_all(space, table - 8, &type, sizeof type) || !modules_at(modules, type))
        return false;
    if (!space_read_all(space, type, description, sizeof description) || !modules_at(modules, description[1]))
        return false;
    memcpy(name, prefix, sizeof prefix);
    size_t got =
        space_read(space, description[1], name + sizeof prefix - 1, FIRST_WORD_BYTES - sizeof prefix);
    name[sizeof prefix - 1 + got] = 0;
    size_t length = strlen(name);
    if (length < sizeof prefix + 1 || length == FIRST_WORD_BYTES - 1) return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_') return false;
    return isdigit((unsigned char)name[sizeof prefix - 1]) || strchr("NS", name[sizeof prefix - 1]);
}

static bool name_word(const struct modules *modules, uint64_t word, char name[FIRST_WORD_BYTES]) {
    const struct module *module = modules_at(modules, word);
    if (!module) return false;
    const char *symbol = module_symbol_at(module, word);
    if (!symbol) return class_name(modules, word, name);
    snprintf(name, FIRST_WORD_BYTES, "%s", symbol);
    return true;
}

static bool name_block(const struct modules *modules, uint64_t block, char name[FIRST_WORD_BYTES]) {
    uint64_t words[WORDS];
    size_t count = space_read(modules->space, block, words, sizeof words) / sizeof *words;
    for (size_t i = 0; i < count; i++)
        if (name_word(modules, words[i], name)) return true;
    return false;
}

void first_words_of(struct first_word *word, const struct holder *holder, const struct modules *modules) {
    char names[SAMPLES][FIRST_WORD_BYTES];
    size_t count = holder->blocks < SAMPLES ? (size_t)holder->blocks : SAMPLES;
    *word = (struct first_word){.looked_at = count};
    for (size_t i = 0; i < count; i++)
        if (!name_block(modules, holder->sampled[i], names[i])) names[i][0] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t alike = 0;
        for (size_t k = 0; names[i][0] && k < count; k++) alike += !strcmp(names[i], names[k]);
        if (alike <= word->blocks) continue;
        word->blocks = alike;
        memcpy(word->name, names[i], sizeof word->name);
    }
}
