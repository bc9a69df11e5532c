// SPDX-License-Identifier: Apache-2.0
// What runs before each timed call, so that it finds caches and TLBs as a program leaves them that did something else.
#ifndef HEAPTAPE_POLLUTION_H
#define HEAPTAPE_POLLUTION_H

#include <stdbool.h>
#include <stdint.h>

enum { HT_POLLUTION_LINE_BYTES = 64, HT_POLLUTION_PAGE_BYTES = 4096 };

struct ht_pollution {
    uint64_t data_bytes;  // written, a byte in each line
    uint64_t code_bytes;  // executed, an instruction in each line
    uint64_t pages;       // read, a byte of each
};

static inline bool ht_pollutes(const struct ht_pollution *pollution) {
    return pollution->data_bytes || pollution->code_bytes || pollution->pages;
}

#endif
