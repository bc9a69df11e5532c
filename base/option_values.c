// SPDX-License-Identifier: Apache-2.0
#include "option_values.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

// Digits behind the point that count; 10^18 is below 2^63.
enum { DECIMALS_MAX = 18 };

struct unit {
    const char *name;
    uint64_t value;
};

// Digits, a point and digits, or digits alone: no sign, no exponent, no hexadecimal, no "inf".
struct number {
    uint64_t whole, fraction, fraction_of;  // whole + fraction / fraction_of
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What follows the digits, of which there may be none; NULL if they are too many.
static const char *whole_before(const char *at, uint64_t *whole) {
    for (*whole = 0; is_digit(*at); at++)
        if (__builtin_mul_overflow(*whole, 10, whole) ||
            __builtin_add_overflow(*whole, (uint64_t)(*at - '0'), whole))
            return NULL;
    return at;
}

bool ht_parse_whole(const char *text, uint64_t lowest, uint64_t highest, uint64_t *value) {
    const char *end = whole_before(text, value);
    return end && end > text && !*end && *value >= lowest && *value <= highest;
}

// What follows the number, NULL if there is none.
static const char *number_before(const char *at, struct number *number) {
    *number = (struct number){.fraction_of = 1};
    if (!is_digit(*at) && *at != '.') return NULL;
    at = whole_before(at, &number->whole);
    if (!at || *at != '.') return at;
    if (!is_digit(*++at)) return NULL;
    for (int decimals = 0; is_digit(*at); at++) {
        if (decimals++ == DECIMALS_MAX) continue;
        number->fraction = number->fraction * 10 + (uint64_t)(*at - '0');
        number->fraction_of *= 10;
    }
    return at;
}

static bool with_unit(const char *text, const struct unit *units, size_t count, uint64_t plain,
                      uint64_t *value) {
    struct number number;
    const char *rest = number_before(text, &number);
    uint64_t unit = 0;
    if (!rest) return false;
    if (!*rest) unit = plain;
    rest += strspn(rest, " ");
    for (size_t i = 0; i < count && *rest; i++)
        if (!strcasecmp(rest, units[i].name)) unit = units[i].value;
    if (!unit) return false;
    unsigned __int128 product = (unsigned __int128)number.whole * unit +
                                (unsigned __int128)number.fraction * unit / number.fraction_of;
    if (product > INT64_MAX) return false;
    *value = (uint64_t)product;
    return true;
}

bool ht_parse_bytes(const char *text, uint64_t plain_bytes, uint64_t *bytes) {
    static const struct unit units[] = {
        {"B", 1},
        {"k", UINT64_C(1) << 10},
        {"M", UINT64_C(1) << 20},
        {"G", UINT64_C(1) << 30},
        {"T", UINT64_C(1) << 40},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
        {"kB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", 1000000000000},
    };
    return with_unit(text, units, sizeof units / sizeof *units, plain_bytes, bytes);
}

bool ht_parse_duration(const char *text, uint64_t *ns) {
    static const uint64_t second = 1000000000;
    static const struct unit units[] = {{"ns", 1},           {"us", 1000},       {"ms", 1000000},
                                        {"s", 1000000000},   {"m", 60000000000}, {"min", 60000000000},
                                        {"h", 3600000000000}};
    return with_unit(text, units, sizeof units / sizeof *units, second, ns);
}

enum { LETTERS_MAX = 64 };

size_t ht_slips(const char *a, const char *b) {
    size_t row[LETTERS_MAX] = {0}, count = 0;
    for (const char *at = b; *at; at++) {
        if (!isalnum((unsigned char)*at) || count + 1 == LETTERS_MAX) continue;
        count++;
        row[count] = count;
    }
    for (; *a; a++) {
        if (!isalnum((unsigned char)*a)) continue;
        size_t diagonal = row[0]++, column = 0;
        for (const char *at = b; *at && column < count; at++) {
            if (!isalnum((unsigned char)*at)) continue;
            size_t above = row[++column],
                   best = diagonal + (tolower((unsigned char)*a) != tolower((unsigned char)*at));
            if (above + 1 < best) best = above + 1;
            if (row[column - 1] + 1 < best) best = row[column - 1] + 1;
            diagonal = above;
            row[column] = best;
        }
    }
    return row[count];
}

void ht_meant_try(struct ht_meant *meant, const char *name) {
    size_t slips = ht_slips(meant->word, name);
    // Of a short word, two other letters make any other.
    if (slips > HT_SLIPS_MAX || 2 * slips >= strlen(meant->word) || (meant->name && slips >= meant->slips))
        return;
    meant->name = name;
    meant->slips = slips;
}

const char *ht_meant_words(const struct ht_meant *meant, char text[HT_MEANT_BYTES]) {
    text[0] = 0;
    if (meant->name) snprintf(text, HT_MEANT_BYTES, " (did you mean %s?)", meant->name);
    return text;
}
