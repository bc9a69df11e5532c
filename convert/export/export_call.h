// SPDX-License-Identifier: Apache-2.0
// A trace's events as the few calls that other tools' formats know, and a count of what that loses.
#ifndef HEAPTAPE_EXPORT_CALL_H
#define HEAPTAPE_EXPORT_CALL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ops.h"
#include "trace_reader.h"

// What is left of the malloc family.
enum export_action {
    EXPORT_NOTHING,       // left out
    EXPORT_MALLOC,        // makes slot, of size
    EXPORT_CALLOC,        // makes slot, count times size
    EXPORT_MEMALIGN,      // makes slot, of size at alignment
    EXPORT_REALLOC,       // gives slot another size
    EXPORT_REALLOC_NULL,  // realloc(NULL, size) makes slot
    EXPORT_RELEASE,       // realloc(slot, 0) ends slot
    EXPORT_FREE,          // ends slot
    EXPORT_FREE_NULL
};

struct export_call {
    enum export_action action;
    uint32_t thread, slot;
    uint64_t event, time_ns;
    uint64_t size, count, alignment;
    bool pseudo;  // not a call of the program
};

// What a format can say beyond malloc, realloc and free of an object.
enum export_ability {
    EXPORT_HAS_CALLOC = 1,
    EXPORT_HAS_MEMALIGN = 2,
    EXPORT_HAS_REALLOC_NULL = 4,
    EXPORT_HAS_RELEASE = 8,
    EXPORT_HAS_FREE_NULL = 16,
    EXPORT_HAS_SIZE_0 = 32
};

enum export_loss {
    EXPORT_LOST_FUNCTION,    // written as the nearest function
    EXPORT_LOST_ALIGNMENT,   // written without
    EXPORT_LOST_FREED_SIZE,  // a free that names size or alignment
    EXPORT_LOST_SIZE_0,      // written as 1
    EXPORT_LOST_INHERITED,   // written as malloc at the start
    EXPORT_LOST_DROPPED,  // a block whose free was not seen, freed by the first thread to reuse its address
    EXPORT_LOST_FOREIGN_REALLOC,  // written as an allocation
    EXPORT_LOST_FOREIGN_FREE,     // left out
    EXPORT_LOST_NULL_FREE,        // left out
    EXPORT_LOST_QUERY,            // left out
    EXPORT_LOST_CONTROL,          // left out
    EXPORT_LOST_FAILED,           // left out
    EXPORT_LOSSES
};

struct export_losses {
    uint64_t count[EXPORT_LOSSES];
};

// What each op comes to in a format; built once.
struct export_reading {
    enum export_action action;
    bool alloc_product;  // size is to be multiplied by extra
    bool aligned, page_aligned;
    bool pseudo;
    uint32_t losses;  // bits
};

struct export_rules {
    struct export_reading of[256];
    unsigned abilities;
    uint64_t page_bytes;  // what valloc aligns to
};

void export_rules_make(struct export_rules *rules, unsigned abilities, uint64_t page_bytes);

// The call that an event comes to, its losses counted.
struct export_call export_call_of(const struct export_rules *rules, const struct ht_events *events,
                                  uint32_t row, struct export_losses *losses);

// "; 3 failed calls left out" for each loss there was.
void export_losses_print(FILE *to, const struct export_losses *losses);

#endif
