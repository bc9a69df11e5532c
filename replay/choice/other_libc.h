// SPDX-License-Identifier: Apache-2.0
// Another C library than this program's own (--alloc NAME@LOADER): its dynamic loader starts the measured
// child, and finds its libc.so.6 before the system's.
#ifndef HEAPTAPE_OTHER_LIBC_H
#define HEAPTAPE_OTHER_LIBC_H

#include <stdbool.h>
#include <stdint.h>

struct ht_other_libc {
    char loader[4096];       // empty: the child is started as any program
    char folders[3 * 4096];  // where the loader searches libraries, with colons between
    uint64_t device, inode;  // of its libc.so.6
    // Threads and dlsym are in libraries of their own, as they are before glibc 2.34.
    bool in_parts;
};

enum { HT_OTHER_LIBC_PROBLEM_BYTES = 400 };

// Finds the C library that the loader of that path belongs to. -1 with a problem that names what was
// expected.
int ht_other_libc_find(struct ht_other_libc *libc, const char *loader,
                       char problem[HT_OTHER_LIBC_PROBLEM_BYTES]);

#endif
