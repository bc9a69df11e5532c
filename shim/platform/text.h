// SPDX-License-Identifier: Apache-2.0
// Text put together, and numbers read from it, without libc's printf and strtoul, which the program may have replaced.
#ifndef HEAPTAPE_TEXT_H
#define HEAPTAPE_TEXT_H

#include <stdint.h>
#include <string.h>

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

// The decimal number behind blanks; UINT64_MAX: none is there. One of 2^62 and more may be cut.
static inline uint64_t text_number_at(const char *at) {
    uint64_t value = 0;
    at += strspn(at, " \t");
    if (*at < '0' || *at > '9') return UINT64_MAX;
    for (; *at >= '0' && *at <= '9' && value < UINT64_C(1) << 62; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    return value;
}

// That behind the first place that has the key.
static inline uint64_t text_number_behind(const char *text, const char *key) {
    const char *found = strstr(text, key);
    return found ? text_number_at(found + strlen(key)) : UINT64_MAX;
}

#endif
