// SPDX-License-Identifier: Apache-2.0
// Which allocator a shared library is, and of which version: by what its file has, of which nothing runs. Any file may be given, a
// hostile one too.
#ifndef HEAPTAPE_PROVED_LIBRARY_H
#define HEAPTAPE_PROVED_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "allocator.h"

enum library_sort {
    LIBRARY_NONE,     // no shared library for a 64-bit system
    LIBRARY_FOREIGN,  // one for another processor, or for 32 bits
    LIBRARY_HERE      // one that can be loaded here
};

enum { LIBRARY_NAME_BYTES = 64, LIBRARY_NEEDED_MAX = 64 };

struct proved_library {
    enum library_sort sort;
    char name[LIBRARY_NAME_BYTES];    // DT_SONAME; empty if there is none, or it cannot be a file's name
    const struct ht_allocator *kind;  // NULL: of no kind that is known
    bool has_malloc;                  // and free
    bool is_loader;                   // a C library's dynamic loader
    char version[48];                 // empty: it cannot be told
    char evidence[64];                // by what the version is known
    char libc[24];  // the newest version of the C library that it needs; empty: none is named
    char needed[LIBRARY_NEEDED_MAX][LIBRARY_NAME_BYTES];
    size_t needed_count;
};

void library_prove(int fd, struct proved_library *library);

// A name that can stand in an added allocator's folder without leading out of it or misleading a terminal.
bool library_is_file_name(const char *name);

#endif
