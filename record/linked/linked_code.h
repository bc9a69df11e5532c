// SPDX-License-Identifier: Apache-2.0
// What `record` has to know of a program's code before an allocator that is linked into it can be hooked. x86-64 only.
#ifndef HEAPTAPE_LINKED_CODE_H
#define HEAPTAPE_LINKED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf_file.h"

// Which functions of a program are called or named by its code and data, and which are entered behind their beginnings.
struct branch_target {
    uint64_t entry, begin, end;  // addresses: where calls are meant to go, and between which none must
    bool called, entered;
    bool branched;  // called by an instruction that names the place
};

// Looks at every byte of code, whether an instruction begins there or not: what is no branch but reads like one is taken for one,
// which hardly ever falls into a few bytes of a program. Jumps of up to 127 bytes are left out. False if code could not be
// read.
bool branch_scan(const struct elf_file *elf, struct branch_target *targets, unsigned count);

// Whether a function may leave registers alone that any function is free to change.
//
// gcc compiles calls within one source file (or by link-time optimization) by what the called function really changes
// (-fipa-ra): a caller then keeps values in the other registers, which a hook would overwrite. That needs all of the
// function's code to be known to the compiler: where it calls what only the loader or a pointer names, it counts as changing
// everything, and so does what calls it.
// True unless the function at the address, or what it calls, is seen to call by a pointer. Without the disassembler: true.
bool register_use_may_be_known(const struct elf_file *elf, uint64_t address);

// The beginning of a function, prepared to run elsewhere, so that a jump can take its place.
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

// Finds where a function goes whose first instruction is a jump. False if it is none.
bool moved_code_is_jump(const uint8_t *code, size_t bytes, uint64_t from, uint64_t *to);

#endif
