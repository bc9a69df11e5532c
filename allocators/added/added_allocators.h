// SPDX-License-Identifier: Apache-2.0
// The allocators that `heaptape allocators add` has put into the user's folder, by names such as mimalloc@3.6.0. Each is a folder of
// that name there, with the library, and allocator.json, which says what it is. Nothing of it runs before a replay.
#ifndef HEAPTAPE_ADDED_ALLOCATORS_H
#define HEAPTAPE_ADDED_ALLOCATORS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"

#define HT_ADDED_MANIFEST "allocator.json"
enum { HT_ADDED_NAME_BYTES = 64, HT_ADDED_PROBLEM_BYTES = 400, HT_ADDED_MAX = 256 };

struct ht_added {
    char name[HT_ADDED_NAME_BYTES];
    const struct ht_allocator *kind;
    char version[HT_ADDED_NAME_BYTES];
    char library[PATH_MAX];
    char loader[PATH_MAX];  // of a C library; else empty
    char source[256];       // the file that it came from, without its folder
    char sha256[65];        // of that file
    char evidence[128];     // by what the version is known
};

// Where they are: $XDG_DATA_HOME/heaptape/allocators, else below ~/.local/share. False if neither variable is an absolute
// path.
bool ht_added_folder(char folder[PATH_MAX]);

// Whether nobody else may write there; else with a problem in one line.
bool ht_added_is_safe(const char *folder, char problem[HT_ADDED_PROBLEM_BYTES]);

// The kind that a name such as mimalloc@3.6.0 is of, and where its version begins; NULL if it is no such name. A version
// begins with a digit, and has no slash.
const struct ht_allocator *ht_added_kind(const char *name, const char **version);

// Fills names with those that are there, sorted. Returns how many.
size_t ht_added_names(char names[HT_ADDED_MAX][HT_ADDED_NAME_BYTES]);

// What is there under that name. False with a problem in one line, which names what there is instead.
bool ht_added_find(const char *name, struct ht_added *added, char problem[HT_ADDED_PROBLEM_BYTES]);

#endif
