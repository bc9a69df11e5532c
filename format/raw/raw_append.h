// SPDX-License-Identifier: Apache-2.0
// Appends records to a chunk of the raw log: the shim's fast path. No calls, no locks, no allocation.
//
//  bit  0    4    8    12   16
//       +----+----+----+----+-----------+--------------+---------+
//       | op | nt | na | ns | time      | address      | size    |     example: docs/reference/raw-log-format.md
//       +----+----+----+----+-----------+--------------+---------+
//
// A process may be killed between any two instructions. Each record therefore becomes visible by one store of
// eight bytes that holds its head; longer records write their tail before it.
#ifndef HEAPTAPE_RAW_APPEND_H
#define HEAPTAPE_RAW_APPEND_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "raw_layout.h"

// The fast path is straight-line code: a call here costs as much as the packing.
#define HT_ALWAYS_INLINE static inline __attribute__((always_inline))

struct ht_cursor {
    uint8_t *at;
    uint64_t last_stamp;
    uint64_t last_address;
};

// Bits of the nibbles that hold a value; 0 takes one, which keeps this free of branches.
static inline unsigned ht_field_bits(uint64_t value) {
    return ((63u ^ (unsigned)__builtin_clzll(value | 1)) | 3) + 1;
}

static inline void ht_store8(uint8_t *at, uint64_t word) { memcpy(at, &word, sizeof word); }

// The general form: any widths, in bits, that of the time lowest and eight bits for each. 15 nibbles take 16,
// because the code 15 means 16.
__attribute__((noinline, unused, cold)) static void ht_append_wide(struct ht_cursor *cursor, unsigned op,
                                                                   uint64_t time, uint64_t address,
                                                                   uint64_t size, unsigned widths) {
    const uint64_t value[3] = {time, address, size};
    uint64_t word[5] = {op};
    unsigned bit = 16;
    for (unsigned field = 0; field < 3; field++) {
        unsigned nibbles = (widths >> 8 * field & 255) / 4, code = nibbles < 15 ? nibbles : 15;
        unsigned bits = 4 * (code + (code == 15));
        word[0] |= (uint64_t)code << (4 + 4 * field);
        if (!bits) continue;
        word[bit / 64] |= value[field] << bit % 64;
        if (bit % 64 + bits > 64) word[bit / 64 + 1] |= value[field] >> (64 - bit % 64);
        bit += bits;
    }
    for (unsigned i = 4; i > 0; i--) ht_store8(cursor->at + 8 * i, word[i]);
    // The compiler must not move the head's store before the tail's.
    __asm__ volatile("" ::: "memory");
    ht_store8(cursor->at, word[0]);
    cursor->at += (bit + 7) / 8;
}

// More than one word: a step from one arena to another needs two.
__attribute__((noinline, unused)) static void ht_append_two_words(struct ht_cursor *cursor, unsigned op,
                                                                  uint64_t time, uint64_t address,
                                                                  uint64_t size, unsigned widths) {
    unsigned nt = widths & 255, na = widths >> 8 & 255, ns = widths >> 16, bits = 16 + nt + na + ns;
    if (bits > 128 || nt >= 60 || na >= 60 || ns >= 60) {
        ht_append_wide(cursor, op, time, address, size, widths);
        return;
    }
    unsigned __int128 packed = ((unsigned __int128)size << na | address) << nt | time;
    packed = packed << 16 | (op | nt << 2 | na << 6 | ns << 10);
    ht_store8(cursor->at + 8, (uint64_t)(packed >> 64));
    __asm__ volatile("" ::: "memory");
    ht_store8(cursor->at, (uint64_t)packed);
    cursor->at += (bits + 7) / 8;
}

// Packs one record of three fields of so many bits; a field of none is absent.
HT_ALWAYS_INLINE void ht_append_fields(struct ht_cursor *cursor, unsigned op, uint64_t time, unsigned nt,
                                       uint64_t address, unsigned na, uint64_t size, unsigned ns) {
    unsigned bits = 16 + nt + na + ns;
    if (__builtin_expect(bits > 64, 0)) {
        ht_append_two_words(cursor, op, time, address, size, nt | na << 8 | ns << 16);
        return;
    }
    uint64_t head = op | nt << 2 | na << 6 | ns << 10;
    ht_store8(cursor->at, ((size << na | address) << nt | time) << 16 | head);
    cursor->at += (bits + 7) / 8;
}

static inline uint64_t ht_time_step(struct ht_cursor *cursor, uint64_t stamp) {
    // Counters of two cores may differ by a little when the thread moves: time never steps back.
    uint64_t step = stamp - cursor->last_stamp;
    step = (int64_t)step < 0 ? 0 : step;
    cursor->last_stamp += step;
    return step;
}

static inline uint64_t ht_address_step(struct ht_cursor *cursor, uint64_t address) {
    uint64_t aligned = address & ~UINT64_C(7);
    int64_t distance = (int64_t)(aligned - cursor->last_address);
    cursor->last_address = aligned;
    // Zigzag of an eighth of it: its low three bits are 0.
    return (uint64_t)(distance >> 2) ^ (uint64_t)(distance >> 63);
}

// A modifier's record, of a value below 2^48, ready to be stored. Returns its length in bytes.
static inline uint32_t ht_encode_modifier(unsigned kind, uint64_t value, uint64_t *record) {
    unsigned na = ht_field_bits(value);
    *record = HT_RAW_MODIFIER | na << 6 | kind << 12 | value << 16;
    return (16 + na + 7) / 8;
}

// The value that such a record was encoded of.
static inline uint64_t ht_modifier_value(uint64_t record) { return record >> 16; }

static inline void ht_append_modifier(struct ht_cursor *cursor, unsigned kind, uint64_t value) {
    if (value >> 48) {
        ht_append_wide(cursor, HT_RAW_MODIFIER | kind << 12, 0, value, 0, ht_field_bits(value) << 8);
        return;
    }
    uint64_t record;
    uint32_t bytes = ht_encode_modifier(kind, value, &record);
    ht_store8(cursor->at, record);
    cursor->at += bytes;
}

// Appends such a record if it is due. Without a branch, which would often be mispredicted.
HT_ALWAYS_INLINE void ht_append_modifier_if(struct ht_cursor *cursor, bool is_due, uint64_t record,
                                            uint32_t bytes) {
    uint64_t mask = -(uint64_t)is_due;
    ht_store8(cursor->at, mask & record);  // nothing: the zeros that are there
    cursor->at += mask & bytes;
}

// An address's low bits, rarely set, travel as a modifier.
HT_ALWAYS_INLINE void ht_append_low_bits(struct ht_cursor *cursor, uint64_t address) {
    if (__builtin_expect((address & 7) != 0, 0))
        ht_append_modifier(cursor, HT_MODIFIER_LOW_BITS, address & 7);
}

// A call with an address. No stamp, which is 0: the record has no time.
HT_ALWAYS_INLINE void ht_append_call(struct ht_cursor *cursor, unsigned op, uint64_t stamp, uint64_t address,
                                     uint64_t size) {
    ht_append_low_bits(cursor, address);
    uint64_t step = ht_address_step(cursor, address);
    unsigned na = ht_field_bits(step), ns = ht_field_bits(size);
    if (stamp) {
        uint64_t time = ht_time_step(cursor, stamp);
        ht_append_fields(cursor, op, time, ht_field_bits(time), step, na, size, ns);
    } else {
        ht_append_fields(cursor, op, 0, 0, step, na, size, ns);
    }
}

// A call that carries an address and no size: free, the ends of a realloc.
HT_ALWAYS_INLINE void ht_append_bare(struct ht_cursor *cursor, unsigned op, uint64_t stamp,
                                     uint64_t address) {
    ht_append_low_bits(cursor, address);
    uint64_t step = ht_address_step(cursor, address);
    if (stamp) {
        uint64_t time = ht_time_step(cursor, stamp);
        ht_append_fields(cursor, op, time, ht_field_bits(time), step, ht_field_bits(step), 0, 0);
    } else {
        ht_append_fields(cursor, op, 0, 0, step, ht_field_bits(step), 0, 0);
    }
}

// A query of a block. Mostly that is the block of the thread's previous call: then the head says it all, and the
// clock need not be read.
static inline bool ht_append_same_query(struct ht_cursor *cursor, uint64_t address) {
    if (address != cursor->last_address) return false;
    ht_append_fields(cursor, HT_RAW_QUERY, 0, 0, 0, 0, 0, 0);
    return true;
}

// A call without address: free(NULL), and every call that failed (after its modifier).
static inline void ht_append_unaddressed(struct ht_cursor *cursor, unsigned op, uint64_t stamp,
                                         uint64_t size) {
    uint64_t time = stamp ? ht_time_step(cursor, stamp) : 0;
    ht_append_fields(cursor, op, time, stamp ? ht_field_bits(time) : 0, 0, 0, size, ht_field_bits(size));
}

// A long record of `words` words, the first of which is a stamp.
static inline void ht_append_long(struct ht_cursor *cursor, unsigned kind, const uint64_t *word,
                                  unsigned words) {
    uint8_t *at = cursor->at;
    memcpy(at + 2, word, 8 * words);
    memset(at + 2 + 8 * words, 0, 2);
    __asm__ volatile("" ::: "memory");
    uint16_t head = (uint16_t)(HT_RAW_LONG | kind << 4 | words << 8);
    memcpy(at, &head, sizeof head);
    cursor->at = at + 2 + 8 * words;
}

// Bytes of the record that begins with this head.
static inline unsigned ht_record_bytes(uint16_t head) {
    if ((head & 15) == HT_RAW_LONG) return 2 + 8u * (head >> 8);
    unsigned fields = (head & 15) == HT_RAW_MODIFIER ? 2 : 3, bits = 16;
    for (unsigned i = 0; i < fields; i++) {
        unsigned code = head >> (4 + 4 * i) & 15;
        bits += 4 * (code + (code == 15));
    }
    return (bits + 7) / 8;
}

// Behind an append that was left at any instruction: over a record that is whole but was not passed yet, and
// behind the zero head that follows. There a reader ends, also after modifiers whose call never came.
static inline void ht_close_after_jump(struct ht_cursor *cursor) {
    uint16_t head;
    while (memcpy(&head, cursor->at, sizeof head), head) cursor->at += ht_record_bytes(head);
    cursor->at += sizeof head;
}

#endif
