// SPDX-License-Identifier: Apache-2.0
// How the verbs talk: numbers for people, progress on a terminal, errors in one line on stderr.
#ifndef HEAPTAPE_TALK_H
#define HEAPTAPE_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "error.h"

// "6,364,276" into text, which holds 32 bytes.
const char *ht_grouped(char text[32], uint64_t number);
// "1 call", "6,364,276 calls", "2 anomalies" (any noun in y, in s or neither), of a noun in the singular.
enum { HT_NUMBER_OF_BYTES = 80 };
const char *ht_number_of(char text[HT_NUMBER_OF_BYTES], uint64_t number, const char *noun);
// "32,400", "0.0512": so many figures, and no exponent however large the number.
const char *ht_figures(char text[32], double number, int figures);
// "5.4 MB": decimal units, three figures.
const char *ht_bytes(char text[32], double bytes);

// How wide what is printed there may be: $COLUMNS, else the terminal's width; 0 where nothing is to be folded.
int ht_terminal_columns(FILE *out);

// Prints "PROGRAM: MESSAGE" and returns the error's status.
int ht_complain(const char *program, const struct ht_error *error);

// Flushes stdout: the status given, or HT_EXIT_FAILED with a line on stderr if what was printed could not be
// written.
int ht_stdout_status(const char *program, int status);

// A line on stderr: on a terminal it is drawn again about six times a second, from the first second on; elsewhere it comes once a
// minute, on a line of its own.
struct ht_progress {
    double started_s, drawn_s;
    bool terminal, drawn;
};
void ht_progress_start(struct ht_progress *progress);
// True if it is time to draw: then print one line without newline by ht_progress_draw.
bool ht_progress_due(struct ht_progress *progress);
void ht_progress_draw(struct ht_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// "", or ", about N s left" at the pace so far. Valid until the next call.
const char *ht_progress_left(const struct ht_progress *progress, uint64_t done, uint64_t total);
void ht_progress_end(struct ht_progress *progress);

#endif
