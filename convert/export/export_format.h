// SPDX-License-Identifier: Apache-2.0
// What one exported format is made of; each lives in a file export_NAME.c of its own.
#ifndef HEAPTAPE_EXPORT_FORMAT_H
#define HEAPTAPE_EXPORT_FORMAT_H

#include "export_call.h"
#include "export_text.h"
#include "slot_table.h"
#include "trace_facts.h"

enum { EXPORT_HEADER_MAX = 128 };

struct export_format;

// One export under way.
struct exporter {
    const struct export_format *format;
    struct export_text text;
    struct export_rules rules;
    struct export_losses losses;
    struct ht_trace_facts facts;
    uint64_t page_bytes, peak_live_bytes;  // as the trace says; 0 where it does not
    uint64_t events;                       // of the trace, so far
    uint64_t lines;                        // written so far, without the header
    uint32_t slot_max;
    struct slot_table numbers;  // of uint64_t, the format's own
    void *own;                  // the same, made by begin
    const char *wrong;          // why the export cannot go on
};

struct export_format {
    const char *name, *suffix;
    const char *unsaid;   // what no file of this format can say
    unsigned abilities;   // enum export_ability
    size_t header_bytes;  // of a header that is known at the end only
    // False for want of memory. May be NULL, as finish, end and header may.
    bool (*begin)(struct exporter *exporter);
    // Every event in order, those that come to nothing included. Puts whole lines, and counts them.
    void (*call)(struct exporter *exporter, const struct export_call *call);
    void (*finish)(struct exporter *exporter);  // after the last event
    void (*end)(struct exporter *exporter);     // frees what begin made
    // Fills header_bytes bytes.
    void (*header)(const struct exporter *exporter, char *header);
};

extern const struct export_format export_malloc_wrap, export_android, export_rep;

// The format's own number of a slot in the section under way; 0 until it is set.
static inline uint64_t *export_number(const struct exporter *exporter, uint32_t slot) {
    return (uint64_t *)exporter->numbers.items + slot;
}

// A number, padded by blanks to `width`, and a newline: width + 1 bytes.
void export_padded_number(char *at, size_t width, uint64_t number);

#endif
