// SPDX-License-Identifier: Apache-2.0
// What malloc's resident pages consist of: each byte of them is in one account, so that their sum is what is in RAM.
#ifndef HEAPTAPE_ACCOUNTS_H
#define HEAPTAPE_ACCOUNTS_H

#include <stdio.h>

#include "glibc.h"
#include "modules.h"
#include "other.h"

// Why a byte is free: by the list of its chunk.
enum free_list { FREE_BINS, FREE_CACHES, FREE_FASTBINS, FREE_TOP, FREE_OTHER, FREE_LISTS };

// Sizes of chunks: each small one, then four a doubling.
enum { SIZE_SMALL = 65, SIZE_CLASSES = SIZE_SMALL + 4 * 37, SAMPLES = 32 };

// Live blocks of a size in an arena.
struct holder {
    uint64_t blocks, bytes;  // usable ones, in RAM or not
    double holes_bytes;      // of the pages that they lie in, each hole shared equally by the page's blocks
    uint64_t sampled[SAMPLES];       // some of the blocks' addresses
    uint64_t low_bytes, high_bytes;  // usable, of the smallest and the largest
};

struct arena_sums {
    uint64_t blocks, live_bytes, free_bytes[FREE_LISTS];
    struct holder *holders;  // SIZE_CLASSES of them
};

struct accounts {
    // In RAM.
    uint64_t live_bytes;                    // usable bytes of live blocks: what was asked for, and rounding
    uint64_t headers_bytes;                 // beside live blocks
    uint64_t holes_bytes[FREE_LISTS];       // of pages that hold live blocks
    uint64_t free_pages_bytes[FREE_LISTS];  // pages without any
    uint64_t tables_bytes;                  // the allocator's own data
    uint64_t others_bytes;                  // of the break, which others moved, too: not malloc's
    uint64_t unknown_bytes;                 // of heaps, not understood
    // All.
    uint64_t blocks, usable_bytes, not_resident_bytes, swapped_bytes, huge_bytes;
    uint64_t trim_bytes;        // what malloc_trim(0) would give back
    struct arena_sums *arenas;  // one more than glibc's: the last is of mapped chunks
    size_t arena_count;
};

// blocks: where to write all chunks as lines of CSV, or NULL. 0 or -1 with error.
int accounts_take(struct accounts *accounts, const struct glibc *glibc, FILE *blocks, struct ht_error *error);
void accounts_free(struct accounts *accounts);
uint64_t accounts_sum(const uint64_t bytes[FREE_LISTS]);

extern const char *const free_list_names[FREE_LISTS];

// ---- what blocks begin with ----
//
// It may be a pointer to an exported symbol (of Python's, its type), or to a C++ class's table of functions,
// whose name lies beside it even in a stripped program.

enum { FIRST_WORD_BYTES = 256 };

struct first_word {
    char name[FIRST_WORD_BYTES];  // as the symbol is written; "" where nothing is common
    size_t blocks, looked_at;
};

void first_words_of(struct first_word *word, const struct holder *holder, const struct modules *modules);

// ---- private memory in RAM that is not malloc's ----

struct outside {
    uint64_t stacks_bytes, files_bytes,
        other_bytes;         // files: written pages of private mappings, zeroed data among them
    uint64_t largest_bytes;  // of one mapping of others
    uint64_t swapped_bytes;
};

// glibc, other: whose heaps are left out, of one of them; NULL: none. 0 or -1 with error.
int outside_take(struct outside *outside, struct space *space, const struct glibc *glibc,
                 const struct other *other, struct ht_error *error);

#endif
