// SPDX-License-Identifier: Apache-2.0
// Text on its way to a file: a buffer, hand-written numbers, and a file that appears under its name only when
// it is complete.
#ifndef HEAPTAPE_EXPORT_TEXT_H
#define HEAPTAPE_EXPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "error.h"
#include "output_file.h"

enum { EXPORT_TEXT_ROOM = 1 << 20, EXPORT_LINE_MAX = 256 };

struct export_text {
    const char *path;         // "-" for standard output
    struct output_file file;  // without one (fd -1), nothing is kept, only counted
    bool in_place;            // a regular file, whose head can still be written when the rest is
    bool failed;
    struct ht_error error;  // valid once failed
    uint64_t bytes;         // of full buffers handed on
    size_t used;
    char *buffer;
};

// Can the head of this output still be written when the rest is? Not on standard output, devices and pipes.
bool export_text_in_place(const char *path);
// Opens the file beside its final name; standard output, devices and pipes are written as they are.
int export_text_open(struct export_text *text, const char *path, struct ht_error *error);
// From now on, what is put is only counted (until export_text_open); for a rehearsal.
int export_text_rehearse(struct export_text *text, const char *path, struct ht_error *error);
void export_text_flush(struct export_text *text);
// Writes the first bytes again; for files in place.
void export_text_put_head(struct export_text *text, const char *head, size_t count);
// Flushes, syncs and renames. The text is closed in every case.
int export_text_finish(struct export_text *text, struct ht_error *error);
// Gives up: removes the partial file.
void export_text_abandon(struct export_text *text);

// To be called before a line of at most EXPORT_LINE_MAX bytes is put.
static inline void export_text_line(struct export_text *text) {
    if (text->used > EXPORT_TEXT_ROOM - EXPORT_LINE_MAX) export_text_flush(text);
}
static inline void export_put_char(struct export_text *text, char c) { text->buffer[text->used++] = c; }
static inline void export_put_words(struct export_text *text, const char *words, size_t length) {
    memcpy(text->buffer + text->used, words, length);
    text->used += length;
}
#define EXPORT_PUT_LITERAL(text, literal) export_put_words(text, literal, sizeof literal - 1)

static inline void export_put_decimal(struct export_text *text, uint64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    export_put_words(text, digits + at, sizeof digits - at);
}

static inline void export_put_hexadecimal(struct export_text *text, uint64_t value) {
    char digits[16];
    size_t at = sizeof digits;
    do {
        digits[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value);
    export_put_words(text, digits + at, sizeof digits - at);
}

#endif
