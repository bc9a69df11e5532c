// SPDX-License-Identifier: Apache-2.0
#include "print.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Stands for the newlines of the format until all of it is printed: a byte that no text in UTF-8 has.
enum { NEWLINE = 0xff };

// The character that begins there, and how many bytes it takes; 0 bytes where there is no UTF-8.
static uint32_t character_at(const unsigned char *at, unsigned *bytes) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned length = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;
    uint32_t character = length < 2 ? *at : *at & (0x7fu >> length);
    for (unsigned i = 1; i < length; i++) {
        if (at[i] >> 6 != 2) length = 0;  // the zero at the end is none either
        else character = character << 6 | (at[i] & 63u);
    }
    bool surrogate = character >= 0xd800 && character < 0xe000;
    *bytes = length && (character < least[length] || character > 0x10ffff || surrogate) ? 0 : length;
    return character;
}

static bool is_dangerous(uint32_t character) {
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c ||
           character == 0x200e || character == 0x200f || (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069);
}

// Who asks for the C locale by name gets ASCII, as from the Python verbs.
static bool is_ascii_only(void) {
    const char *locale = getenv("LC_ALL");
    return locale && (!strcmp(locale, "C") || !strcmp(locale, "POSIX"));
}

// Standard error has no buffer: each character would be a write of its own, and another process's line could come in
// between.
struct piece {
    FILE *out;
    size_t used;
    char text[1024];
};

static void flush_piece(struct piece *piece) {
    fwrite(piece->text, piece->used, 1, piece->out);
    piece->used = 0;
}

static char *room_for(struct piece *piece, size_t bytes) {
    if (piece->used + bytes > sizeof piece->text) flush_piece(piece);
    piece->used += bytes;
    return piece->text + piece->used - bytes;
}

static void put_byte(struct piece *piece, char byte) { *room_for(piece, 1) = byte; }

static void put_escaped(struct piece *piece, char kind, unsigned digits, uint32_t value) {
    static const char hexadecimal[] = "0123456789abcdef";
    put_byte(piece, '\\');
    put_byte(piece, kind);
    while (digits--) put_byte(piece, hexadecimal[value >> 4 * digits & 15]);
}

static void put(FILE *out, const char *text, bool has_marks, bool ends) {
    struct piece piece = {.out = out, .used = 0};
    const unsigned char *at = (const unsigned char *)text;
    bool ascii_only = is_ascii_only();
    while (*at) {
        unsigned bytes;
        uint32_t character = character_at(at, &bytes);
        if (has_marks && *at == NEWLINE) put_byte(&piece, '\n');
        else if (!bytes || (bytes == 1 && is_dangerous(character))) put_escaped(&piece, 'x', 2, *at);
        else if (ascii_only && character > 0xffff) put_escaped(&piece, 'U', 8, character);
        else if (is_dangerous(character) || (ascii_only && character > 0xff))
            put_escaped(&piece, 'u', 4, character);
        else if (ascii_only && character > 0x7f) put_escaped(&piece, 'x', 2, character);
        else memcpy(room_for(&piece, bytes), at, bytes);
        at += bytes ? bytes : 1;
    }
    if (ends) put_byte(&piece, '\n');
    flush_piece(&piece);
}

static size_t count(const char *text, int byte) {
    size_t found = 0;
    for (; *text; text++) found += (unsigned char)*text == byte;
    return found;
}

void ht_print(FILE *out, const char *format, ...) {
    va_list arguments;
    char *marked = strdup(format), *text = NULL;
    if (!marked) return;
    for (char *at = marked; *at; at++)
        if (*at == '\n') *at = (char)NEWLINE;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    va_start(arguments, format);
    int length = vasprintf(&text, marked, arguments);
    va_end(arguments);
#pragma GCC diagnostic pop
    // Where an argument has that byte too, only the last line ends.
    bool has_marks = length >= 0 && count(text, NEWLINE) == count(format, '\n');
    bool ends = length > 0 && !has_marks && text[length - 1] == (char)NEWLINE;
    if (ends) text[length - 1] = 0;
    if (length >= 0) put(out, text, has_marks, ends);
    if (length >= 0) free(text);
    free(marked);
}
