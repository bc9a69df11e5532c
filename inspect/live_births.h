// SPDX-License-Identifier: Apache-2.0
// Which blocks are live at a moment of a trace, by the number of the event that allocated each; a realloc is the same block.
#ifndef HEAPTAPE_LIVE_BIRTHS_H
#define HEAPTAPE_LIVE_BIRTHS_H

#include <stdbool.h>

#include "trace_reader.h"

struct live_births {
    uint64_t *word;  // a bit for each event; NULL: nothing is known
    uint64_t events;
};

// After all events until at_ns. Returns 0 or -1 with error; events that make no sense are passed over: who reads them
// next refuses them.
int live_births_find(struct live_births *births, struct ht_trace_reader *reader, const char *path,
                     uint64_t at_ns, struct ht_error *error);

static inline bool live_births_have(const struct live_births *births, uint64_t event) {
    return event < births->events && births->word[event / 64] >> event % 64 & 1;
}

void live_births_free(struct live_births *births);

#endif
