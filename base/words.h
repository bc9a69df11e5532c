// Lists of words in a text, with a separator between.
#ifndef HEAPTAPE_WORDS_H
#define HEAPTAPE_WORDS_H

#include <stdbool.h>
#include <string.h>

// What follows the word that begins there, NULL behind the last one.
static inline const char *ht_next_word(const char *at, char separator) {
    const char *end = strchr(at, separator);
    return end ? end + 1 : NULL;
}

static inline bool ht_has_word(const char *words, char separator, const char *word) {
    size_t length = strlen(word);
    for (const char *at = words; length && at; at = ht_next_word(at, separator))
        if (!strncmp(at, word, length) && (!at[length] || at[length] == separator)) return true;
    return false;
}

#endif
