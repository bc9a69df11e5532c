// Which pieces of a program's code are the target of some jump or call in it.
#ifndef HEAPTAPE_BRANCH_SCAN_H
#define HEAPTAPE_BRANCH_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "elf_file.h"

struct branch_range {
    uint64_t begin, end;  // addresses
    bool entered;
};

// Looks at every byte, whether an instruction begins there or not: what is no branch but reads like one is taken for one,
// which hardly ever falls into a few bytes of a program. Jumps of up to 127 bytes are left out. False if code could not be
// read.
bool branch_scan(const struct elf_file *elf, struct branch_range *ranges, unsigned count);

#endif
