// SPDX-License-Identifier: Apache-2.0
// Reads the tokens of an accesses file. No C library: see simulate/processor/processor.h.
#ifndef HEAPTAPE_ACCESS_READER_H
#define HEAPTAPE_ACCESS_READER_H

#include <stddef.h>

#include "access_tokens.h"

enum { HT_ACCESS_READ_BYTES = 1 << 16 };

struct ht_access_reader {
    // At most so many bytes into the room; 0 at the end of the file.
    size_t (*read)(void *source, uint8_t *room, size_t count);
    void *source;
    uint64_t offset;         // in the file, of buffer[0]
    bool sampled, in_burst;  // sampled: the file's version is HT_ACCESS_VERSION_SAMPLED
    size_t at, filled;
    bool ended;         // the file
    uint8_t too_high;   // the last byte of a number of more than 64 bits
    uint32_t code_run;  // predicted lines that are not handed out yet
    uint32_t thread;
    struct ht_access_state state;
    uint8_t buffer[HT_ACCESS_READ_BYTES];
};

enum ht_access_kind {
    HT_ACCESS_BLOCK,      // slot and granule
    HT_ACCESS_LINE,       // line
    HT_ACCESS_CODE,       // line
    HT_ACCESS_CALL,       // call
    HT_ACCESS_BURST,      // from here on misses count
    HT_ACCESS_BURST_END,  // accesses: of the program in the burst
    HT_ACCESS_END,        // instructions, accesses and operators; nothing comes after it
    HT_ACCESS_CUT,        // the file ends before HT_TOKEN_END, at the offset
    HT_ACCESS_DAMAGED,    // at the offset is what no writer writes: expected says what was expected
};

struct ht_access {
    uint64_t line, granule;
    uint64_t offset;  // of its first byte in the file
    uint64_t instructions, accesses, operators;
    uint32_t slot;
    const char *expected;
    uint64_t found;  // instead
    struct ht_recorded_call call;
};

// What is wrong with a file's beginning, of which there are so many bytes (of HT_ACCESS_HEADER_BYTES, as far as the file has
// them): expected and found, and at which offset. NULL: nothing.
const char *ht_access_header_wrong(const uint8_t *head, size_t bytes, uint64_t *offset);

// The next one. What it is not leaves its members as they are.
enum ht_access_kind ht_read_access(struct ht_access_reader *reader, struct ht_access *access);

#endif
