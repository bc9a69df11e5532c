// SPDX-License-Identifier: Apache-2.0
// Names objects within one section of a trace: what the slot columns hold, and back (docs/reference/trace-format.md,
// "Slots").
//
// Two observations make slots nearly free. An allocation mostly gets the slot that its thread freed last, so
// within a section the frees predict the allocations. And what is freed or reallocated was mostly born a
// little earlier in the same section, by the same thread, so "how many of the thread's births ago" names it,
// whatever other threads do meanwhile. Only the rest is stored as a number.
#ifndef HEAPTAPE_SLOT_CODER_H
#define HEAPTAPE_SLOT_CODER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_layout.h"

enum { SLOT_CODER_HASH = 2 * HT_SECTION_ROWS_MAX };

// Codes of the two columns.
enum { HT_BIRTH_FROM_STACK = 0, HT_BIRTH_EXPLICIT = 1 };
enum { HT_NAMED_OWN = 0, HT_NAMED_OTHERS = 1, HT_NAMED_ACROSS = 2, HT_NAMED_BY_BIRTH = 3 };

// Threads go by their number within the section.
struct slot_birth {
    uint32_t slot;
    uint32_t owner;  // whose allocation it is, or SLOT_NOBODY
};
static const uint32_t SLOT_NOBODY = UINT32_MAX;

struct slot_coder {
    uint32_t births;                     // so far in this section
    uint32_t born[HT_SECTION_ROWS_MAX];  // so far by each thread
    // Encoder: in event order. Decoder: thread by thread, so that each thread's births lie side by side.
    struct slot_birth birth[HT_SECTION_ROWS_MAX];
    // Encoder: whose birth each is, and how many that thread has had with it.
    uint32_t birth_thread[HT_SECTION_ROWS_MAX], birth_number[HT_SECTION_ROWS_MAX];
    // Decoder: where each thread's births begin; and where each of all births is, in event order.
    uint32_t first[HT_SECTION_ROWS_MAX], place[HT_SECTION_ROWS_MAX];
    // The threads' stacks of freed slots: lists through nodes, 0 ends one.
    uint32_t nodes, node_slot[HT_SECTION_ROWS_MAX + 1], node_below[HT_SECTION_ROWS_MAX + 1];
    uint32_t threads, top[HT_SECTION_ROWS_MAX];
    // Hash tables, open addressing: thread -> its number in this section, and (encoder only) slot -> its
    // latest birth. An entry holds key, mark, value less one in 32, 16 and 16 bits; it counts only if it
    // carries the section's own mark, so that a new section need not clear the tables.
    uint16_t mark;
    uint64_t thread_entry[SLOT_CODER_HASH], slot_entry[SLOT_CODER_HASH];
};
static_assert(HT_SECTION_ROWS_MAX <= 1 << 16, "births and threads of a section fit 16 bits");

// A new section. The coder starts zeroed.
void slot_coder_begin(struct slot_coder *coder);

// The number of a thread within the section; ask again only when the thread changes.
uint32_t slot_coder_thread(struct slot_coder *coder, uint32_t thread);

static inline void slot_coder_push(struct slot_coder *coder, uint32_t thread, uint32_t slot) {
    uint32_t node = ++coder->nodes;
    coder->node_slot[node] = slot;
    coder->node_below[node] = coder->top[thread];
    coder->top[thread] = node;
}

// ---- encoding ----

static inline uint32_t slot_coder_home(uint32_t key) { return (uint32_t)(key * UINT32_C(0x9e3779b1)) >> 15; }
static_assert(SLOT_CODER_HASH == 1 << 17, "slot_coder_home yields 17 bits");

static inline bool slot_coder_live(const struct slot_coder *coder, uint64_t entry) {
    return (uint16_t)(entry >> 16) == coder->mark;
}

// Where the key's entry is, or would go.
static inline uint64_t *slot_coder_find(const struct slot_coder *coder, uint64_t *table, uint32_t key) {
    uint32_t i = slot_coder_home(key);
    while (slot_coder_live(coder, table[i]) && table[i] >> 32 != key) i = (i + 1) % SLOT_CODER_HASH;
    return &table[i];
}

static inline uint64_t slot_coder_entry(const struct slot_coder *coder, uint32_t key, uint32_t value) {
    return (uint64_t)key << 32 | (uint64_t)coder->mark << 16 | (value - 1);
}

static inline void slot_coder_prefetch(const struct slot_coder *coder, uint32_t slot) {
    __builtin_prefetch(&coder->slot_entry[slot_coder_home(slot)], 1);
}

static inline void slot_coder_bear(struct slot_coder *coder, uint64_t *entry, uint32_t thread, uint32_t slot,
                                   uint32_t owner) {
    uint32_t birth = coder->births++;
    coder->birth[birth] = (struct slot_birth){slot, owner};
    coder->birth_thread[birth] = thread;
    coder->birth_number[birth] = ++coder->born[thread];
    *entry = slot_coder_entry(coder, slot, coder->births);
}

// An event of `thread` makes an object in `slot`. Returns its code; HT_BIRTH_EXPLICIT: store the slot.
static inline uint32_t slot_coder_encode_birth(struct slot_coder *coder, uint32_t thread, uint32_t slot) {
    uint32_t top = coder->top[thread], code = HT_BIRTH_EXPLICIT;
    if (top && coder->node_slot[top] == slot) {
        coder->top[thread] = coder->node_below[top];
        code = HT_BIRTH_FROM_STACK;
    }
    slot_coder_bear(coder, slot_coder_find(coder, coder->slot_entry, slot), thread, slot, thread);
    return code;
}

// An event of `thread` names the object in `slot`. really_own: the slot's last allocation was this thread's,
// for all the caller knows. Returns its code; below HT_NAMED_ACROSS: store the slot; HT_NAMED_ACROSS: store
// *across.
static inline uint32_t slot_coder_encode_named(struct slot_coder *coder, uint32_t thread, uint32_t slot,
                                               bool ends, bool reborn, bool really_own, uint32_t *across) {
    uint64_t *entry = slot_coder_find(coder, coder->slot_entry, slot);
    uint32_t owner, code;
    if (slot_coder_live(coder, *entry)) {
        uint32_t birth = (uint16_t)*entry;
        owner = coder->birth[birth].owner;
        *across = coder->births - 1 - birth;
        code = coder->birth_thread[birth] == thread
                   ? HT_NAMED_BY_BIRTH + coder->born[thread] - coder->birth_number[birth]
                   : (uint32_t)HT_NAMED_ACROSS;
    } else {
        owner = really_own ? thread : SLOT_NOBODY;
        code = really_own ? HT_NAMED_OWN : HT_NAMED_OTHERS;
    }
    if (reborn) slot_coder_bear(coder, entry, thread, slot, owner);
    if (ends && owner == thread) slot_coder_push(coder, thread, slot);
    return code;
}

// ---- decoding ----

// The next values of the two columns that hold what codes leave open.
struct slot_values {
    const uint32_t *slot, *across;
};

static inline void slot_coder_born(struct slot_coder *coder, uint32_t thread, struct slot_birth birth) {
    uint32_t place = coder->first[thread] + coder->born[thread]++;
    coder->birth[place] = birth;
    coder->place[coder->births++] = place;
}

// Slot 0 means a code that cannot be.
static inline uint32_t slot_coder_decode_birth(struct slot_coder *coder, uint32_t thread, uint32_t code,
                                               struct slot_values *values) {
    uint32_t slot, top = coder->top[thread];
    if (code == HT_BIRTH_FROM_STACK) {
        slot = coder->node_slot[top];  // node 0 holds slot 0
        coder->top[thread] = coder->node_below[top];
    } else {
        slot = *values->slot++;
    }
    slot_coder_born(coder, thread, (struct slot_birth){.slot = slot, .owner = thread});
    return slot;
}

static inline uint32_t slot_coder_decode_named(struct slot_coder *coder, uint32_t thread, uint32_t code,
                                               bool ends, bool reborn, struct slot_values *values) {
    struct slot_birth named;
    if (code >= HT_NAMED_BY_BIRTH) {
        uint32_t ago = code - HT_NAMED_BY_BIRTH;
        if (ago >= coder->born[thread]) return 0;
        named = coder->birth[coder->first[thread] + coder->born[thread] - 1 - ago];
    } else if (code == HT_NAMED_ACROSS) {
        uint32_t ago = *values->across++;
        if (ago >= coder->births) return 0;
        named = coder->birth[coder->place[coder->births - 1 - ago]];
    } else {
        named = (struct slot_birth){.slot = *values->slot++,
                                    .owner = code == HT_NAMED_OWN ? thread : SLOT_NOBODY};
    }
    if (reborn) slot_coder_born(coder, thread, named);
    if (ends && named.owner == thread) slot_coder_push(coder, thread, named.slot);
    return named.slot;
}

#endif
