// SPDX-License-Identifier: Apache-2.0
// What blocks begin with: a pointer to an exported symbol (of Python's, its type), or to a C++ class's table of functions,
// whose name lies beside it even in a stripped program.
#ifndef HEAPTAPE_FIRST_WORDS_H
#define HEAPTAPE_FIRST_WORDS_H

#include "accounts.h"
#include "modules.h"

enum { FIRST_WORD_BYTES = 256 };

struct first_word {
    char name[FIRST_WORD_BYTES];  // as the symbol is written; "" where nothing is common
    size_t blocks, looked_at;
};

void first_words_of(struct first_word *word, const struct holder *holder, const struct modules *modules);

#endif
