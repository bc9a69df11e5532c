// SPDX-License-Identifier: Apache-2.0
// Text put together without libc's printf, which the program may have replaced.
#ifndef HEAPTAPE_TEXT_H
#define HEAPTAPE_TEXT_H

#include <stdint.h>

// What does not fit before `end` is left out.
struct text {
    char *at, *end;
};

static inline void text_char(struct text *text, char c) {
    if (text->at < text->end) *text->at++ = c;
}

static inline void text_string(struct text *text, const char *string) {
    while (*string) text_char(text, *string++);
}

static inline void text_number(struct text *text, uint64_t number) {
    char digits[20];
    unsigned count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count) text_char(text, digits[--count]);
}

static inline void text_hex(struct text *text, unsigned char byte) {
    static const char digits[] = "0123456789abcdef";
    text_char(text, digits[byte >> 4]);
    text_char(text, digits[byte & 15]);
}

#endif
