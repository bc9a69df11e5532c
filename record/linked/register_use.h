// SPDX-License-Identifier: Apache-2.0
// Whether a function may leave registers alone that any function is free to change.
//
// gcc compiles calls within one source file (or by link-time optimization) by what the called function really changes
// (-fipa-ra): a caller then keeps values in the other registers, which a hook would overwrite. That needs all of the
// function's code to be known to the compiler: where it calls what only the loader or a pointer names, it counts as changing
// everything, and so does what calls it.
#ifndef HEAPTAPE_REGISTER_USE_H
#define HEAPTAPE_REGISTER_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "elf_file.h"

// True unless the function at the address, or what it calls, is seen to call by a pointer. Without the disassembler: true.
bool register_use_may_be_known(const struct elf_file *elf, uint64_t address);

#endif
