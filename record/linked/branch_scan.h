// SPDX-License-Identifier: Apache-2.0
// Which functions of a program are called or named by its code and data, and which are entered behind their beginnings.
#ifndef HEAPTAPE_BRANCH_SCAN_H
#define HEAPTAPE_BRANCH_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "elf_file.h"

struct branch_target {
    uint64_t entry, begin, end;  // addresses: where calls are meant to go, and between which none must
    bool called, entered;
    bool branched;  // called by an instruction that names the place
};

// Looks at every byte of code, whether an instruction begins there or not: what is no branch but reads like one is taken for one,
// which hardly ever falls into a few bytes of a program. Jumps of up to 127 bytes are left out. False if code could not be
// read.
bool branch_scan(const struct elf_file *elf, struct branch_target *targets, unsigned count);

#endif
