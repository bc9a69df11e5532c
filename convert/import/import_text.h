// SPDX-License-Identifier: Apache-2.0
// Reads numbers and words off a line of text. A line is followed by a byte that is part of no number and no
// word (its newline), so that nothing here checks for the line's end.
#ifndef HEAPTAPE_IMPORT_TEXT_H
#define HEAPTAPE_IMPORT_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct import_text {
    const char *at, *end;
};

// Each reads what it is named after and steps over it, or returns false and leaves `at` anywhere.

static inline bool text_is(struct import_text *text, char wanted) {
    if (*text->at != wanted) return false;
    text->at++;
    return true;
}

// The word must not hold a newline.
static inline bool text_word(struct import_text *text, const char *word) {
    while (*word)
        if (!text_is(text, *word++)) return false;
    return true;
}

// Decimal, below 2^64.
static inline bool text_decimal(struct import_text *text, uint64_t *value) {
    unsigned digit = (unsigned char)*text->at - (unsigned)'0';
    uint64_t number = 0;
    if (digit > 9) return false;
    do {
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, digit, &number))
            return false;
        digit = (unsigned char)*++text->at - (unsigned)'0';
    } while (digit <= 9);
    *value = number;
    return true;
}

static inline unsigned text_hex_digit(char c) {
    unsigned digit = (unsigned char)c - (unsigned)'0', letter = ((unsigned char)c | 32u) - (unsigned)'a';
    return digit <= 9 ? digit : letter < 6 ? letter + 10 : 16;
}

// Hexadecimal without prefix, below 2^64.
static inline bool text_hex(struct import_text *text, uint64_t *value) {
    unsigned digit = text_hex_digit(*text->at);
    uint64_t number = 0;
    if (digit > 15) return false;
    do {
        if (number >> 60) return false;
        number = number << 4 | digit;
        digit = text_hex_digit(*++text->at);
    } while (digit <= 15);
    *value = number;
    return true;
}

// Hexadecimal behind 0x.
static inline bool text_0x(struct import_text *text, uint64_t *value) {
    return text_is(text, '0') && text_is(text, 'x') && text_hex(text, value);
}

// Hexadecimal behind 0x, decimal without.
static inline bool text_number(struct import_text *text, uint64_t *value) {
    return text->at[0] == '0' && text->at[1] == 'x' ? text_0x(text, value) : text_decimal(text, value);
}

// A pointer as %p writes it.
static inline bool text_pointer(struct import_text *text, uint64_t *value) {
    *value = 0;
    return *text->at == '(' ? text_word(text, "(nil)") : text_0x(text, value);
}

static inline void text_skip_blanks(struct import_text *text) {
    while (*text->at == ' ' || *text->at == '\t') text->at++;
}

// Nothing follows but blanks.
static inline bool text_ends(struct import_text *text) {
    text_skip_blanks(text);
    return text->at >= text->end;
}

#endif
