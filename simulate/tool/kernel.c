// SPDX-License-Identifier: GPL-3.0-or-later
// What the kernel does in the program's time, which valgrind does not see: page faults, and the calls by which an allocator
// changes mappings.
#include <asm/unistd_64.h>

#include "tool.h"
#include <pub_tool_aspacemgr.h>

// Pages of files count apart: the kernel maps several of them at each fault, and zeroes none. What the recorded program had at
// an address, of which this process may have a file, is not known: most often memory.
static Bool is_of_file(enum part part, Addr address) {
    if (part == PART_PROGRAM && is_splicing()) return False;
    const NSegment *segment = VG_(am_find_nsegment)(address);
    return segment && segment->kind == SkFileC;
}

void page_fault(enum part part, Addr address) {
    if (is_of_file(part, address)) {
        counts.file_faults[part]++;
    } else {
        counts.faults[part]++;
        ht_processor_zero_page(&processor, address >> HT_PAGE_SHIFT);
    }
}

// The program's own calls are the same under every allocator.
void count_mapping_call(UInt number) {
    if (!running.counts || !running.in_allocator) return;
    switch (number) {
    case __NR_brk:
    case __NR_mmap:
    case __NR_munmap:
    case __NR_mremap:
    case __NR_mprotect:
    case __NR_madvise: counts.mapping_calls++;
    }
}

void give_back_pages(Addr address, SizeT bytes) {
    process_accesses();
    ht_forget_pages(&page_touches, address, bytes);
}
