// SPDX-License-Identifier: Apache-2.0
// A core file as an address space. Of the files that were mapped it has but what was written to: their rest is read from
// the files, where these are still the same.
#ifndef HEAPTAPE_CORE_FILE_H
#define HEAPTAPE_CORE_FILE_H

#include "space.h"

enum { CORE_COMMAND_BYTES = 96 };

struct core_file {
    struct space space;
    const char *path;
    size_t dumped;  // mappings that segments make, the first ones
    char command[CORE_COMMAND_BYTES];
};

// 0 or -1 with error. Closed by space_free.
int core_file_open(struct core_file *core, const char *path, struct ht_error *error);
// What is in it, which the rights that are left must suffice for. 0 or -1 with error.
int core_file_read(struct core_file *core, struct ht_error *error);

#endif
