// SPDX-License-Identifier: Apache-2.0
// A simulated branch predictor: of conditional branches whether they are taken, of indirect ones where they go. A table by
// address, and four more by address and the last 5, 13, 32 and 64 outcomes, of which the longest history that is known says
// it (TAGE: A. Seznec, P. Michaud, "A case for (partially) TAgged GEometric history length branch prediction", 2006).
// Returns are always predicted. No C library: see processor.h.
#ifndef HEAPTAPE_BRANCHES_H
#define HEAPTAPE_BRANCHES_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HT_BRANCH_TABLES = 4,
    HT_BRANCH_ENTRY_BITS = 12,   // of a table with histories
    HT_BRANCH_BASE_BITS = 14,    // of the table without
    HT_BRANCH_TARGET_BITS = 12,  // of the targets of indirect branches
};

struct ht_branch_entry {
    uint16_t tag;
    int8_t taken;    // -4 to 3: not taken below 0; the further away, the surer
    uint8_t useful;  // 0 to 3: how often it was right where the shorter histories were not
};

struct ht_branch_counts {
    uint64_t branches, misses;
};

// All zeros is one that has seen nothing.
struct ht_branch_predictor {
    uint64_t history;  // outcomes, the last one in the lowest bit
    int8_t base[1 << HT_BRANCH_BASE_BITS];
    struct ht_branch_entry table[HT_BRANCH_TABLES][1 << HT_BRANCH_ENTRY_BITS];
    uint64_t target[1 << HT_BRANCH_TARGET_BITS];
};

// Outcomes from before here predict nothing.
static inline void ht_branch_forget_history(struct ht_branch_predictor *predictor) { predictor->history = 0; }

// A conditional branch at that address has this outcome.
void ht_branch_taken(struct ht_branch_predictor *predictor, uint64_t address, bool taken,
                     struct ht_branch_counts *counts);

// An indirect jump or call at that address goes there.
void ht_branch_to(struct ht_branch_predictor *predictor, uint64_t address, uint64_t target,
                  struct ht_branch_counts *counts);

#endif
