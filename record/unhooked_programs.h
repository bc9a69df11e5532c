// SPDX-License-Identifier: Apache-2.0
// Programs that the recorded one started or became, such as one that a script runs, and that have an allocator linked in:
// only the program that record itself starts is hooked. What their logs lack is known by their files.
#ifndef HEAPTAPE_UNHOOKED_PROGRAMS_H
#define HEAPTAPE_UNHOOKED_PROGRAMS_H

#include <stddef.h>

enum { HT_PROGRAMS_JUDGED_MAX = 64 };

struct unhooked_programs {
    const char *shim;
    char *judged[HT_PROGRAMS_JUDGED_MAX];
    size_t judged_count;
    char *first;      // a sentence on the first one
    size_t likewise;  // more of them
};

// started: the executable that record has judged before it started it.
void unhooked_programs_begin(struct unhooked_programs *programs, const char *started, const char *shim);
// The executable of a log (NULL: unknown), and what the log says of hooks (NULL: nothing). Each file is read once.
void unhooked_programs_take(struct unhooked_programs *programs, const char *executable, const char *hooks);
// One line, if there are any. Frees what was taken.
void unhooked_programs_say(struct unhooked_programs *programs);

#endif
