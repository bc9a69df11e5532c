// SPDX-License-Identifier: Apache-2.0
// Printing for people. What is printed may come from a trace, a log, a program's own names or a folder where
// others write: it must not move the cursor, set the window's title, begin a line of its own or turn the
// direction of the text.
#ifndef HEAPTAPE_PRINT_H
#define HEAPTAPE_PRINT_H

#include <stdio.h>

// Prints like fprintf, but that only the format itself can begin a new line. What else could lead a terminal
// or a reader astray is printed in letters: control characters as \x1b, those beyond ASCII, those that turn
// the text's direction and the ends of lines and paragraphs as \u202e, bytes that are no UTF-8 as \xff;
// under LC_ALL=C all that is beyond ASCII.
void ht_print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
