// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and times as people write them in options: the same words for every option of every verb. The Python
// verbs read times alike (analysis/heaptape/base/arguments.py); tests/golden/option_values.txt has examples of both.
#ifndef HEAPTAPE_OPTION_VALUES_H
#define HEAPTAPE_OPTION_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// Digits alone, a number of these bounds.
bool ht_parse_whole(const char *text, uint64_t lowest, uint64_t highest, uint64_t *value);

// "4096", "64k", "1.5GiB", "2 TB": a number, whole or with decimals, and what it counts: nothing: plain_bytes
// each; B: bytes; k, M, G, T or KiB, MiB, GiB, TiB: powers of 1024; kB, MB, GB, TB: powers of 1000; in upper or
// lower case. False if it is none of that, or 2^63 and more.
bool ht_parse_bytes(const char *text, uint64_t plain_bytes, uint64_t *bytes);

// "90", "90s", "500ms", "5m", "1.5h": seconds unless it says otherwise (ns, us, ms, s, m or min, h). False if it
// is none of that, or 2^63 ns and more.
bool ht_parse_duration(const char *text, uint64_t *ns);

// Lists of words with a separator between: what follows the word that begins there, NULL behind the last one.
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

// ---- names: which of the known ones one meant who mistyped, by one rule for verbs, allocators, knobs and figures ----

enum { HT_SLIPS_MAX = 2, HT_MEANT_BYTES = 96 };

// How many letters of one differ from the other, capitals and marks such as _ aside.
size_t ht_slips(const char *a, const char *b);

struct ht_meant {
    const char *word, *name;  // as typed; the nearest of those tried, NULL: none is near
    size_t slips;
};

// Tries one more name.
void ht_meant_try(struct ht_meant *meant, const char *name);

// " (did you mean tcmalloc?)", or nothing.
const char *ht_meant_words(const struct ht_meant *meant, char text[HT_MEANT_BYTES]);

#endif
