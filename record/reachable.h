// SPDX-License-Identifier: Apache-2.0
// Whether, and how far, a preloaded library reaches a program.
#ifndef HEAPTAPE_REACHABLE_H
#define HEAPTAPE_REACHABLE_H

#include <limits.h>
#include <stdbool.h>

enum reach_level {
    REACH_FULL,    // as far as is known
    REACH_PARTLY,  // the program has memory of its own that no malloc sees
    REACH_NONE     // no call would be seen, or the program would not start
};

struct reach {
    enum reach_level level;
    bool children;              // programs that this one starts are reached, whatever it is itself
    char program[PATH_MAX];     // the file that the command names
    char executable[PATH_MAX];  // what runs it: itself, or a script's interpreter
    bool linked;                // an allocator is linked into it whose calls are not handed over
    const char *allocator;      // which, NULL: unknown
    const char *loads;          // the allocator whose shared library it asks for, NULL: none
    char why[PATH_MAX + 256];   // what follows the program's name in a sentence; empty where all is reached
};

// Judges the command as execvp would run it, with that library preloaded. A program that cannot be found or
// read is REACH_FULL: running it will show.
void reach_of(struct reach *reach, const char *command, const char *library);

#endif
