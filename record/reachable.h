// SPDX-License-Identifier: Apache-2.0
// Whether, and how far, a preloaded library reaches a program. A new runtime is a line in the tables of reachable.c; the signs of
// an allocator are in its file of allocators/catalogue/.
#ifndef HEAPTAPE_REACHABLE_H
#define HEAPTAPE_REACHABLE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

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

// Judges the command (words, ended by NULL) as execvp would run it, with that library preloaded; of a shell that becomes another
// program at once (sh -c 'exec PROGRAM ...'), that program. One that cannot be found or read is REACH_FULL: running it will show.
void reach_of(struct reach *reach, char *const *command, const char *library);

// Programs that the recorded one started or became, such as one that a script runs, and that have an allocator linked in, or ask
// for its library and call it by its own names: only the program that record itself starts is hooked, or gets the library with
// these names. Their files say what their logs lack.
enum { HT_PROGRAMS_JUDGED_MAX = 64 };

struct missed_calls {
    char *first;      // a sentence on the first program
    size_t likewise;  // more of them
};

struct unhooked_programs {
    const char *shim, *full;
    char *judged[HT_PROGRAMS_JUDGED_MAX];
    size_t judged_count;
    struct missed_calls linked, own;
};

// started: the executable that record has judged before it started it. full: the library that has allocators' own functions; "": there
// is none, or it is preloaded.
void unhooked_programs_begin(struct unhooked_programs *programs, const char *started, const char *shim,
                             const char *full);
// The executable of a log (NULL: unknown), and what the log says of hooks (NULL: nothing). Each file is read once.
void unhooked_programs_take(struct unhooked_programs *programs, const char *executable, const char *hooks);
// A line of each kind that there is. Frees what was taken.
void unhooked_programs_say(struct unhooked_programs *programs);

#endif
