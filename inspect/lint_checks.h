// SPDX-License-Identifier: Apache-2.0
// What lint searches for, and what it has found: the same for traces and raw logs.
#ifndef HEAPTAPE_LINT_CHECKS_H
#define HEAPTAPE_LINT_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map64.h"

// In the order in which they are printed. Those up to the last defect make the exit status 1.
enum lint_kind {
    LINT_DOUBLE_FREE,      // the block had been freed before (raw logs)
    LINT_INSIDE_FREE,      // the address lies inside a live block (raw logs)
    LINT_OVERLAP,          // a new block overlaps a live one (raw logs)
    LINT_UNSEEN_FREE,      // a live block's address was handed out again
    LINT_PAIR,             // malloc's block to delete, new's to free or realloc, new[]'s to delete ...
    LINT_SIZE,             // a sized free gives another size than was asked for
    LINT_OTHER_ALIGNMENT,  // a free gives another alignment than was asked for
    LINT_BAD_ALIGNMENT,    // an alignment that is no power of two, or too small for posix_memalign
    LINT_LAST_DEFECT = LINT_BAD_ALIGNMENT,
    LINT_FOREIGN,  // free or realloc of a block that was never seen allocated
    LINT_FAILED,
    LINT_REALLOC_ZERO,  // realloc(p, 0): what it does is up to the allocator
    LINT_ZERO_SIZED,
    LINT_ODD_SIZE,  // aligned_alloc of a size that is no multiple of the alignment
    LINT_KINDS
};

struct lint_kind_text {
    const char *key, *one, *many;
};
extern const struct lint_kind_text lint_kind_texts[LINT_KINDS];

enum { LINT_EXAMPLES_MAX = 1000, LINT_NO_ALIGNMENT = 255 };

// One live block.
struct lint_block {
    uint64_t bytes, time_ns;
    uint64_t birth;  // trace: event number; raw log: nothing
    uint32_t thread;
    uint8_t function;   // that made it, enum ht_function; HT_INHERIT: unknown
    uint8_t alignment;  // log2 as asked for, or LINT_NO_ALIGNMENT
    bool live;
};

// Where and what a call is. Of event and slot, offset and address, one pair is set.
struct lint_call {
    uint64_t event, offset, address, time_ns, size, extra;
    uint32_t slot, thread;
    uint8_t function, variant;
};

struct lint_finding {
    struct lint_call call;
    struct lint_block block;  // the one that it is about
    bool has_block;
    uint64_t block_address;  // raw logs
};

struct lint_tally {
    uint64_t count;
    struct lint_finding *example;  // the first ones
    size_t examples;
};

struct lint_leak {
    struct lint_block block;
    uint64_t name;  // slot or address
};

struct lint_leaks {
    uint64_t blocks, bytes, inherited_blocks, inherited_bytes;
    struct map64 by_size;      // size plus one -> blocks
    struct map64 by_thread;    // thread plus one -> blocks
    struct lint_leak *oldest;  // sorted
    size_t oldest_count;
};

struct lint {
    bool raw;
    bool sliced;
    bool drops_expected;  // a slice by threads, which ends blocks of left-out threads so
    size_t limit;         // examples to keep of each kind
    uint64_t calls;
    struct lint_tally tally[LINT_KINDS];
    struct lint_leaks leaks;
    // Raw logs: fills in where in the file the call's record is. Called for examples only.
    void (*locate)(void *context, struct lint_call *call);
    void *locate_context;
};

bool lint_init(struct lint *lint, bool raw, size_t limit);
void lint_free(struct lint *lint);

// block, block_address: NULL and 0 where none is involved.
void lint_found(struct lint *lint, enum lint_kind kind, const struct lint_call *call,
                const struct lint_block *block, uint64_t block_address);

// What can be said of any call by itself.
void lint_check_call(struct lint *lint, const struct lint_call *call);
// The block that a successful call has made.
struct lint_block lint_block_of(const struct lint_call *call);
// The block ends, or is reallocated, by this call.
void lint_check_end(struct lint *lint, const struct lint_call *call, const struct lint_block *block,
                    uint64_t block_address);
// Live at the end. False for want of memory.
bool lint_leak(struct lint *lint, const struct lint_block *block, uint64_t name);

uint64_t lint_defects(const struct lint *lint);

#endif
