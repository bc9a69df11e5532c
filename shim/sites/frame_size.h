// SPDX-License-Identifier: Apache-2.0
// How far up from a return address does the next one lie, by the .eh_frame tables alone? Where the frame is of a fixed size, so
// that its caller's lies at a known distance from the stack pointer, nothing but the table is needed, and libgcc's unwinder,
// which takes thousands of instructions for each frame on the way, need not be asked.
#ifndef HEAPTAPE_FRAME_SIZE_H
#define HEAPTAPE_FRAME_SIZE_H

#include <stdint.h>

#include "attributes.h"

// The bytes from the end of the frame that was called to that of the function which `address` returns to. 0: only the unwinder
// knows: the frame has another base than the stack pointer, is the thread's first one or a signal handler's, or there is no
// table. May take libgcc's lock, where the unwinder would.
HIDDEN uintptr_t frame_size(uintptr_t address);

// The end of the frame of the function that `address` returns to: so many bytes above the value of a register, by its number in
// DWARF.
struct frame_base {
    enum { FRAME_BASE_UNKNOWN, FRAME_BASE_MISSING, FRAME_BASE_KNOWN } state;
    uint64_t number, offset;
};
// Unknown: there is no table, or more in it than is read here. Missing: a table does not say it, as those of a JIT compiler that
// needs them for exceptions alone (LuaJIT). libgcc's unwinder aborts where it is to go beyond such a frame.
enum { FRAME_STACK_POINTER = 7 };
HIDDEN struct frame_base frame_base(uintptr_t address);

#endif
