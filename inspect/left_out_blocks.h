// SPDX-License-Identifier: Apache-2.0
// Blocks that a slice leaves out, with all calls on them: those that --without names, or all but those of --only.
#ifndef HEAPTAPE_LEFT_OUT_BLOCKS_H
#define HEAPTAPE_LEFT_OUT_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_reader.h"

struct left_out_blocks {
    const char *given;             // NULL: none
    uint64_t size_low, size_high;  // bytes asked for at birth, both included
    uint64_t born_from_ns, born_to_ns;
    uint64_t live_at_ns;  // if only_live
    uint32_t thread;
    bool any_thread, only_live;
    bool only;  // those named are kept, and all others left out
};

// "size=48-64,thread=3,born=2.1s-2.4s,live=3s": each once at most, at least one. NULL, or what was expected.
const char *left_out_blocks_parse(const char *text, struct left_out_blocks *blocks);

// live: whether it is at live_at_ns.
static inline bool left_out_blocks_have(const struct left_out_blocks *blocks, uint64_t bytes, uint32_t thread,
                                        uint64_t born_ns, bool live) {
    bool named = bytes >= blocks->size_low && bytes <= blocks->size_high &&
                 (blocks->any_thread || thread == blocks->thread) && born_ns >= blocks->born_from_ns &&
                 born_ns <= blocks->born_to_ns && (live || !blocks->only_live);
    return blocks->given && named != blocks->only;
}

// ---- which blocks are live at a moment, by the number of the event that allocated each; a realloc is the same block ----

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
