// SPDX-License-Identifier: Apache-2.0
// What verification finds: written by the measured child into the exchange the moment it is found, so that it
// is there even where the allocator crashes afterwards; reported by the launcher.
#ifndef HEAPTAPE_VERIFY_FINDINGS_H
#define HEAPTAPE_VERIFY_FINDINGS_H

#include <stdatomic.h>
#include <stdint.h>

enum ht_violation_kind {
    HT_VIOLATION_OVERLAP,    // with a live block, whose slot and origin are in other_*
    HT_VIOLATION_ALIGNMENT,  // expected: the alignment; found: the largest that the address has
    HT_VIOLATION_ZEROS,      // calloc: found: the byte at offset
    HT_VIOLATION_CHANGED,    // while it was live: bytes expected and found at offset
    HT_VIOLATION_NOT_KEPT,   // by realloc: likewise
    HT_VIOLATION_USABLE,     // malloc_usable_size: expected at least, found
    HT_VIOLATION_FAILED,     // NULL that the recorded program did not get
    HT_VIOLATION_KINDS
};

// A call, by the number of its stream and its own number among that stream's, from 0.
#define HT_STREAM_END UINT32_MAX  // no call, but the end of the trace
struct ht_call_place {
    uint32_t stream;
    uint64_t call;
};

struct ht_violation {
    _Atomic uint32_t written;  // 1 once the rest is there
    uint32_t kind, slot;
    struct ht_call_place found_at, made_at;  // made_at: the call that returned the block
    uint32_t other_slot;
    struct ht_call_place other_made_at;
    uint64_t bytes;  // of the block
    uint64_t offset, expected, found;
};

enum { HT_VIOLATIONS_REPORTED = 16 };

// The functions that verification calls to get blocks. The trace's others are replayed by these: aligned ones
// by posix_memalign, operator new by itself or malloc.
enum ht_verified_function {
    HT_VERIFIED_MALLOC,
    HT_VERIFIED_CALLOC,
    HT_VERIFIED_REALLOC,
    HT_VERIFIED_ALIGNED,
    HT_VERIFIED_FUNCTIONS
};

struct ht_verify_findings {
    _Atomic uint64_t counts[HT_VIOLATION_KINDS];
    _Atomic uint64_t violations;  // of all kinds
    _Atomic uint64_t known;       // not among them: explained by a known fault of the allocator
    struct ht_violation first[HT_VIOLATIONS_REPORTED];
    uint32_t usable_unknown;  // 1: the allocator has no malloc_usable_size
    uint64_t blocks_checked;  // at free, realloc and the end
    // What was exercised: how often each function returned a block, the largest that one asked for.
    _Atomic uint64_t blocks_by[HT_VERIFIED_FUNCTIONS];
    _Atomic uint64_t largest_bytes, largest_alignment;
};

#endif
