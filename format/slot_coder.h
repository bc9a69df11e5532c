// Names objects within one section of a trace: what the slot columns hold, and back (docs/trace-format.md, "Slots").
//
// Two observations make slots nearly free. An allocation mostly gets the slot that its thread freed last, so within a
// section the frees predict the allocations. And what is freed or reallocated was mostly born a little earlier in the
// same section, so "how many births ago" names it. Only the rest is stored as a number.
#ifndef HEAPTAPE_SLOT_CODER_H
#define HEAPTAPE_SLOT_CODER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_layout.h"

enum { SLOT_CODER_HASH = 4 * HT_SECTION_ROWS_MAX };

// Codes of the two columns.
enum { HT_BIRTH_FROM_STACK = 0, HT_BIRTH_EXPLICIT = 1 };
enum { HT_NAMED_OWN = 0, HT_NAMED_OTHERS = 1, HT_NAMED_BY_BIRTH = 2 };

struct slot_birth {
    uint32_t slot;
    uint32_t owner;  // the section's number of the thread whose allocation it is, or SLOT_NOBODY
};
static const uint32_t SLOT_NOBODY = UINT32_MAX;

struct slot_coder {
    uint32_t births;                                   // so far in this section
    struct slot_birth birth[HT_SECTION_ROWS_MAX + 1];  // from 1
    // The threads' stacks of freed slots: lists through nodes, 0 ends one.
    uint32_t nodes, node_slot[HT_SECTION_ROWS_MAX + 1], node_below[HT_SECTION_ROWS_MAX + 1];
    uint32_t threads, top[HT_SECTION_ROWS_MAX];
    // thread -> its number in this section, and (encoder only) slot -> its latest birth. An entry counts only if it
    // carries the section's own mark, so that a new section need not clear 3 MiB.
    uint32_t mark;
    uint32_t thread_mark[SLOT_CODER_HASH], thread_key[SLOT_CODER_HASH], thread_number[SLOT_CODER_HASH];
    uint32_t slot_mark[SLOT_CODER_HASH], slot_key[SLOT_CODER_HASH], slot_birth[SLOT_CODER_HASH];
};

// A new section. The coder starts zeroed.
void slot_coder_begin(struct slot_coder *coder);

// The section's number of a thread; ask again only when the thread changes.
uint32_t slot_coder_thread(struct slot_coder *coder, uint32_t thread);

static inline void slot_coder_push(struct slot_coder *coder, uint32_t thread, uint32_t slot) {
    uint32_t node = ++coder->nodes;
    coder->node_slot[node] = slot;
    coder->node_below[node] = coder->top[thread];
    coder->top[thread] = node;
}

static inline void slot_coder_born(struct slot_coder *coder, uint32_t slot, uint32_t owner) {
    coder->birth[++coder->births] = (struct slot_birth){slot, owner};
}

// ---- encoding ----

static inline uint32_t slot_coder_home(uint32_t key) { return (uint32_t)(key * UINT32_C(0x9e3779b1)) >> 14; }
static_assert(SLOT_CODER_HASH == 1 << 18, "slot_coder_home yields 18 bits");

// Where the slot's entry is, or would go.
static inline uint32_t slot_coder_find(const struct slot_coder *coder, uint32_t slot) {
    uint32_t i = slot_coder_home(slot);
    while (coder->slot_mark[i] == coder->mark && coder->slot_key[i] != slot) i = (i + 1) % SLOT_CODER_HASH;
    return i;
}

static inline void slot_coder_note_birth(struct slot_coder *coder, uint32_t i, uint32_t slot) {
    coder->slot_mark[i] = coder->mark;
    coder->slot_key[i] = slot;
    coder->slot_birth[i] = coder->births;
}

// An event of `thread` (the section's number) makes an object in `slot`. Returns its code; HT_BIRTH_EXPLICIT: store the slot.
static inline uint32_t slot_coder_encode_birth(struct slot_coder *coder, uint32_t thread, uint32_t slot) {
    uint32_t top = coder->top[thread], code = HT_BIRTH_EXPLICIT;
    if (top && coder->node_slot[top] == slot) {
        coder->top[thread] = coder->node_below[top];
        code = HT_BIRTH_FROM_STACK;
    }
    slot_coder_born(coder, slot, thread);
    slot_coder_note_birth(coder, slot_coder_find(coder, slot), slot);
    return code;
}

// An event of `thread` names the object in `slot`. really_own: the slot's last allocation was this thread's, for all the
// caller knows. Returns its code; below HT_NAMED_BY_BIRTH: store the slot.
static inline uint32_t slot_coder_encode_named(struct slot_coder *coder, uint32_t thread, uint32_t slot, bool ends,
                                               bool reborn, bool really_own) {
    uint32_t i = slot_coder_find(coder, slot), owner, code;
    if (coder->slot_mark[i] == coder->mark) {
        uint32_t number = coder->slot_birth[i];
        owner = coder->birth[number].owner;
        code = HT_NAMED_BY_BIRTH + coder->births - number;
    } else {
        owner = really_own ? thread : SLOT_NOBODY;
        code = really_own ? HT_NAMED_OWN : HT_NAMED_OTHERS;
    }
    if (reborn) {
        slot_coder_born(coder, slot, owner);
        slot_coder_note_birth(coder, i, slot);
    }
    if (ends && owner == thread) slot_coder_push(coder, thread, slot);
    return code;
}

// ---- decoding ----

// Slot 0 means a code that can't be.
static inline uint32_t slot_coder_decode_birth(struct slot_coder *coder, uint32_t thread, uint32_t code,
                                               const uint32_t **explicit_slot) {
    uint32_t slot, top = coder->top[thread];
    if (code == HT_BIRTH_FROM_STACK) {
        slot = coder->node_slot[top];  // node 0 holds slot 0
        coder->top[thread] = coder->node_below[top];
    } else {
        slot = *(*explicit_slot)++;
    }
    slot_coder_born(coder, slot, thread);
    return slot;
}

static inline uint32_t slot_coder_decode_named(struct slot_coder *coder, uint32_t thread, uint32_t code, bool ends,
                                               bool reborn, const uint32_t **explicit_slot) {
    struct slot_birth named;
    if (code >= HT_NAMED_BY_BIRTH) {
        uint32_t ago = code - HT_NAMED_BY_BIRTH;
        if (ago >= coder->births) return 0;
        named = coder->birth[coder->births - ago];
    } else {
        named = (struct slot_birth){*(*explicit_slot)++, code == HT_NAMED_OWN ? thread : SLOT_NOBODY};
    }
    if (reborn) slot_coder_born(coder, named.slot, named.owner);
    if (ends && named.owner == thread) slot_coder_push(coder, thread, named.slot);
    return named.slot;
}

#endif
