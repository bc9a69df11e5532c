// SPDX-License-Identifier: Apache-2.0
// The tokens of an accesses file (docs/reference/accesses-format.md), and the state that its writer and its
// reader keep alike. No C library: see simulate/processor/processor.h.
#ifndef HEAPTAPE_ACCESS_TOKENS_H
#define HEAPTAPE_ACCESS_TOKENS_H

#include <stdbool.h>
#include <stdint.h>

#define HT_ACCESS_MAGIC "HTAPEACC"

enum {
    HT_ACCESS_MAGIC_BYTES = sizeof HT_ACCESS_MAGIC - 1,
    HT_ACCESS_HEADER_BYTES = HT_ACCESS_MAGIC_BYTES + 16,
    HT_ACCESS_VERSION_WHOLE = 1,
    HT_ACCESS_VERSION_SAMPLED = 2,
    HT_GRANULE_SHIFT = 4,  // places in a block are counted in 16 bytes, to which allocators align
    HT_ACCESS_BLOCKS = 16,
    HT_ACCESS_PAGES = 32,
    HT_ACCESS_PAGE_LINES = 64,
    HT_CODE_PREDICTIONS_BITS = 16,
    HT_ACCESS_TOKEN_BYTES_MAX = 64,
};

enum ht_access_token {
    HT_TOKEN_BLOCK = 0x00,  // | a recent block << 3 | step + 3; HT_STEP_FOLLOWS: a zigzag follows
    HT_TOKEN_CODE = 0x80,   // | n − 1: n lines of instructions as predicted
    HT_TOKEN_PAGE = 0xa0,   // | a recent page; a byte: the line in it
    HT_TOKEN_NEW_BLOCK = 0xc0,
    HT_TOKEN_NEW_PAGE = 0xc1,
    HT_TOKEN_CODE_ELSEWHERE = 0xc2,
    HT_TOKEN_THREAD = 0xc3,
    HT_TOKEN_END = 0xc4,
    HT_TOKEN_BURST = 0xc5,      // sampled files: from here on all accesses are there
    HT_TOKEN_BURST_END = 0xc6,  // up to here
    HT_TOKEN_CALL = 0xc8,       // | enum ht_access_call
};

enum { HT_STEP_FOLLOWS = 7, HT_CODE_RUN_MAX = 32 };

enum ht_access_call {
    HT_ACCESS_MALLOC,
    HT_ACCESS_CALLOC,
    HT_ACCESS_REALLOC,
    HT_ACCESS_FREE,
    HT_ACCESS_ALIGNED,
    HT_ACCESS_FREE_NULL,
    HT_ACCESS_CALLS
};

// A call of the malloc family that succeeded. A block keeps its slot until it is freed; a free slot is used
// again.
struct ht_recorded_call {
    enum ht_access_call call;
    uint64_t instructions;  // of the program since the call before, this call's own left out
    uint32_t slot;          // of the block that it returns, or frees; none of free(NULL)
    uint32_t thread;        // the reader's: as of the last HT_TOKEN_THREAD
    bool from_null;         // a realloc of NULL
    uint64_t size;          // bytes asked for; of one element (calloc)
    uint64_t count;         // elements (calloc); alignment (aligned)
};

// Recent blocks and pages, the oldest replaced, and which line of instructions followed which.
struct ht_access_state {
    uint32_t block[HT_ACCESS_BLOCKS];  // slot + 1; 0: none
    uint64_t granule[HT_ACCESS_BLOCKS];
    uint64_t page[HT_ACCESS_PAGES];  // + 1; 0: none
    uint32_t next_block, next_page;
    uint64_t last_page, last_code_line;
    uint64_t after_code_line[1 << HT_CODE_PREDICTIONS_BITS];
};

static inline uint32_t ht_code_prediction(uint64_t line) {
    return (uint32_t)(line * 0x9e3779b97f4a7c15u >> (64 - HT_CODE_PREDICTIONS_BITS));
}
static inline uint64_t ht_zigzag(int64_t value) { return (uint64_t)value << 1 ^ (uint64_t)(value >> 63); }
static inline int64_t ht_from_zigzag(uint64_t value) { return (int64_t)(value >> 1) ^ -(int64_t)(value & 1); }

// A slot that ended is no recent block any more: its number may name another block.
static inline void ht_access_forget(struct ht_access_state *state, uint32_t slot) {
    for (int i = 0; i < HT_ACCESS_BLOCKS; i++) {
        if (state->block[i] == slot + 1) state->block[i] = 0;
    }
}

#endif
