// SPDX-License-Identifier: Apache-2.0
// One event as one call of the replay: what was recorded, made into what every allocator can be asked for.
#ifndef HEAPTAPE_FORM_OPERATION_H
#define HEAPTAPE_FORM_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay_form.h"
#include "trace_reader.h"

struct ht_operation {
    bool frees;
    bool sized;         // of a free: with its block's size and the alignment in extra
    enum ht_wide call;  // if not
    unsigned function;  // as recorded: the figures are kept by it
    uint32_t slot;
    uint64_t size;   // of the call: calloc's element size
    uint64_t extra;  // count, alignment, former size; of malloc enum ht_new_kind
    uint64_t bytes;  // what the block holds afterwards
    uint64_t pages;  // known to have been resident, or HT_PAGES_BY_RULE
};

// By what a function's call is replayed. sized: by the size that its block has.
enum ht_new_kind ht_new_kind_of(unsigned function);
enum ht_free_kind ht_free_kind_of(unsigned function, bool sized);

// Row i of events. former_bytes: what the block in its slot holds before. pages is by rule: only the caller
// knows what else the trace says.
struct ht_operation ht_operation_of(const struct ht_events *events, uint32_t i, uint64_t former_bytes);

// Writes the operation's words, four at most; returns how many.
size_t ht_operation_put(const struct ht_operation *operation, uint64_t *words);

#endif
