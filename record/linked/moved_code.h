// SPDX-License-Identifier: Apache-2.0
// The beginning of a function, prepared to run elsewhere, so that a jump can take its place. x86-64 only.
#ifndef HEAPTAPE_MOVED_CODE_H
#define HEAPTAPE_MOVED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOVED_BYTES_MAX = 96, MOVED_FIELDS_MAX = 8 };

struct moved_code {
    uint8_t bytes[MOVED_BYTES_MAX];  // does what the displaced bytes did, and goes on behind them
    unsigned length;
    unsigned field[MOVED_FIELDS_MAX];  // offsets of four-byte numbers that refer to what stays where it is
    unsigned fields;
    unsigned patch;  // where the jump goes, from the function's entry: behind its endbr64
    unsigned end;    // where the displaced bytes end
    bool returns;    // puts a return address on the stack that no call has put there
};

// False in a build without the disassembler: then no code can be moved.
bool moved_code_can(void);

// For the code at the address `from`, to run at the address `to`. NULL, or in half a sentence why that cannot be.
const char *moved_code(struct moved_code *moved, const uint8_t *code, size_t bytes, uint64_t from,
                       uint64_t to);

// Where a function goes whose first instruction is a jump. False if it is none.
bool moved_code_is_jump(const uint8_t *code, size_t bytes, uint64_t from, uint64_t *to);

#endif
