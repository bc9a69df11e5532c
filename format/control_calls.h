// SPDX-License-Identifier: Apache-2.0
// Calls by which a program controls its allocator, by number (docs/reference/trace-format.md#control-calls). They are no calls
// of the malloc family: an event of such a call has the number and the first operand as its size, the second one as its extra.
#ifndef HEAPTAPE_CONTROL_CALLS_H
#define HEAPTAPE_CONTROL_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops.h"

enum ht_control_number {
    HT_CTL_MALLOPT = 1,  // parameter, value
    HT_CTL_TRIM,         // -, pad
    HT_CTL_MALLINFO,     // the rest have no operand but those that are named
    HT_CTL_MALLINFO2,
    HT_CTL_MALLOC_INFO,
    HT_CTL_MALLOC_STATS,
    HT_CTL_MI_COLLECT,           // -, force
    HT_CTL_RELEASE_FREE_MEMORY,  // gperftools'
    HT_CTL_RELEASE_TO_SYSTEM,    // -, bytes
    // jemalloc's mallctl, by name. Of an arena: its number, and the value that is set.
    HT_CTL_ARENA_PURGE,
    HT_CTL_ARENA_DECAY,
    HT_CTL_ARENA_DIRTY_DECAY,
    HT_CTL_ARENA_MUZZY_DECAY,
    HT_CTL_DIRTY_DECAY,  // of arenas to come; -, value
    HT_CTL_MUZZY_DECAY,
    HT_CTL_BACKGROUND_THREAD,  // -, value
    HT_CTL_TCACHE_FLUSH,
    HT_CTL_MALLCTL,  // another name, or one that is only read: its first bytes
    HT_CTL_MADVISE,  // advice; in no event of HT_CONTROL, but of HT_ADVISE
    HT_CTL_NUMBERS
};

struct ht_control_call {
    uint32_t number, zero;
    int64_t first, second;
};

static inline struct ht_control_call ht_control_of(uint64_t size, uint64_t extra) {
    return (struct ht_control_call){
        .number = (uint32_t)(size & 0xff), .first = (int64_t)size >> 8, .second = (int64_t)extra};
}
static inline uint64_t ht_control_size(const struct ht_control_call *call) {
    return (uint64_t)call->first << 8 | (call->number & 0xff);
}

// The call of an event of HT_CONTROL or HT_ADVISE.
static inline struct ht_control_call ht_control_of_event(uint8_t op, uint64_t size, uint64_t extra) {
    if (ht_op_function(op) == HT_CONTROL) return ht_control_of(size, extra);
    return (struct ht_control_call){.number = HT_CTL_MADVISE, .first = (int64_t)(extra & 0xff)};
}

// Of the extra of HT_ADVISE: where in the block the bytes begin, and MADV_..., which is below 256, or that they are written again.
enum { HT_ADVICE_WRITTEN = 255 };
static inline uint64_t ht_advice_extra(uint64_t offset, unsigned advice) { return offset << 8 | advice; }
static inline uint64_t ht_advice_offset(uint64_t extra) { return extra >> 8; }
// "unknown" of one that is not recorded.
const char *ht_advice_name(unsigned advice);

// A name in the operands of HT_CTL_MALLCTL: the first 7 bytes in the first one, 8 in the second, the lowest byte first.
enum { HT_CONTROL_WORD_BYTES = 15 };
static inline void ht_control_put_word(struct ht_control_call *call, const char *word) {
    uint64_t part[2] = {0, 0};
    for (unsigned i = 0; i < HT_CONTROL_WORD_BYTES && word[i]; i++)
        part[i >= 7] |= (uint64_t)(unsigned char)word[i] << 8 * (i >= 7 ? i - 7 : i);
    call->first = (int64_t)(part[0] << 8) >> 8;
    call->second = (int64_t)part[1];
}

enum { HT_CONTROL_TEXT_BYTES = 96 };

// The call without its values, by which calls are counted: malloc_trim, mallopt(M_ARENA_MAX). Calls that are not known have the
// name "unknown".
const char *ht_control_name(const struct ht_control_call *call, char text[HT_CONTROL_TEXT_BYTES]);
// The whole call, such as mallopt(M_ARENA_MAX, 1).
const char *ht_control_text(const struct ht_control_call *call, char text[HT_CONTROL_TEXT_BYTES]);
// The function's symbol, as a program calls it; NULL: not known.
const char *ht_control_symbol(unsigned number);
// Does an allocator that has the call do something when it is called so? False of calls that only ask, and of parameters that
// are not known.
bool ht_control_changes(const struct ht_control_call *call);

// What has been set, in the order in which it was first; each the last call of its name. What is beyond the room is left out.
enum { HT_CONTROL_SETTINGS = 32 };
struct ht_control_settings {
    struct ht_control_call call[HT_CONTROL_SETTINGS];
    uint32_t count, zero;
};
// If the call sets something.
void ht_control_settings_note(struct ht_control_settings *settings, const struct ht_control_call *call);

// Calls by name; those beyond the table's room are `others`.
enum { HT_CONTROL_COUNTS = 32 };
struct ht_control_counts {
    struct ht_control_count {
        uint64_t calls;
        int64_t first, second;  // of a call whose name has them
        uint32_t number, zero;
    } count[HT_CONTROL_COUNTS];
    uint64_t others;
};
void ht_control_counts_add(struct ht_control_counts *counts, const struct ht_control_call *call,
                           uint64_t calls);

#endif
