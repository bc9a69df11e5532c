// SPDX-License-Identifier: Apache-2.0
// The library of a known allocator that a file has: the file itself, or the one in a package. A C library comes with its loader and
// the libraries next to it.
#ifndef HEAPTAPE_PACKAGE_LIBRARY_H
#define HEAPTAPE_PACKAGE_LIBRARY_H

#include "error.h"
#include "proved_library.h"

// A library in memory.
struct package_file {
    int fd;
    uint64_t bytes;
    char *member;  // its path in the package
    struct proved_library proved;
};

struct package_library {
    struct package_file *file;  // all that could be loaded here
    size_t count, chosen;
    bool is_libc;
    size_t loader;             // of a C library
    char package_version[64];  // as the package says it; empty: it does not
    char foreign[128];         // one for another machine
};

// path: for messages. 0, or -1 with an error. To be closed in either case.
int package_library_open(struct package_library *package, int fd, const char *path, struct ht_error *error);
void package_library_close(struct package_library *package);

// Whether the file is taken along with the chosen one, itself among them.
bool package_library_takes(const struct package_library *package, size_t file);
// What it is called in a folder of its own.
const char *package_library_name(const struct package_library *package, size_t file);

#endif
