// SPDX-License-Identifier: Apache-2.0
// Libraries with an allocator compiled into them, by the beginning of their file name: what they take from it is no call
// of malloc, and no recording has it. The recorder names them (`inner_allocators`), readers say what turns it off.
#ifndef HEAPTAPE_INNER_ALLOCATORS_H
#define HEAPTAPE_INNER_ALLOCATORS_H

#include <stddef.h>
#include <string.h>

struct ht_inner_allocator {
    const char *file;
    const char *off;  // NAME=value of the environment that makes it call malloc; NULL: there is none
};

// NULL: of none that is known.
static inline const struct ht_inner_allocator *ht_inner_allocator_of(const char *file) {
    static const struct ht_inner_allocator known[] = {{"libarrow.so", "ARROW_DEFAULT_MEMORY_POOL=system"},
                                                      {"polars.abi3.so", NULL},
                                                      {"_polars_runtime", NULL},
                                                      {"libduckdb.so", NULL},
                                                      {"duckdb.", NULL},
                                                      {"_duckdb.", NULL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(file, known[i].file, strlen(known[i].file))) return &known[i];
    return NULL;
}

enum { HT_INNER_ALLOCATORS_BYTES = 256 };
// Half a sentence about those of a list with colons between; empty: there is none. Returns text.
const char *ht_inner_allocators_words(char text[HT_INNER_ALLOCATORS_BYTES], const char *files);

#endif
