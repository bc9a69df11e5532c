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
    // The torture alone finds these.
    HT_VIOLATION_GIVEN,     // a block of a size that nobody can give: expected NULL
    HT_VIOLATION_NOT_USED,  // again: expected: bytes that were freed, found: by how much memory grew meanwhile
    HT_VIOLATION_ENDED,     // a child of fork: found: its signal, 0: it did not end
    HT_VIOLATION_KINDS
};

// What is against a standard and found in allocators that are in use, in calls that only a faulty program makes. It fails no run.
enum ht_departure {
    HT_DEPARTURE_ALIGNMENT,  // posix_memalign takes an alignment for which it has to return EINVAL
    HT_DEPARTURE_OVERFLOW,  // a function that takes or means an alignment gives a block of a size near SIZE_MAX
    HT_DEPARTURE_ERRNO,     // free changes errno
    HT_DEPARTURE_ABORT,     // the process ends where NULL is to be returned
    HT_DEPARTURES
};

// A call, by the number of its stream and its own number among that stream's, from 0.
#define HT_STREAM_END UINT32_MAX  // no call, but the end of the trace
#define HT_STREAM_TORTURE                                                                                    \
    (UINT32_MAX - 1)  // no call of the trace: the part of the torture, or what made the block
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

// What makes blocks. The trace is replayed by the first four: its other aligned blocks by posix_memalign, those of operator new
// by itself or malloc. The torture calls those that the allocator has.
enum ht_verified_function {
    HT_VERIFIED_MALLOC,
    HT_VERIFIED_CALLOC,
    HT_VERIFIED_REALLOC,
    HT_VERIFIED_ALIGNED,
    HT_VERIFIED_TRACE,  // so many of them
    HT_VERIFIED_ALIGNED_ALLOC = HT_VERIFIED_TRACE,
    HT_VERIFIED_MEMALIGN,
    HT_VERIFIED_VALLOC,
    HT_VERIFIED_PVALLOC,
    HT_VERIFIED_REALLOCARRAY,
    HT_VERIFIED_NEW,
    HT_VERIFIED_NEW_ARRAY,
    HT_VERIFIED_NEW_ALIGNED,
    HT_VERIFIED_FUNCTIONS
};

// Parts of the torture, in their order.
enum ht_torture_part {
    HT_TORTURE_FIRST_CALLS,
    HT_TORTURE_DUEL,
    HT_TORTURE_REUSE,
    HT_TORTURE_SIZES,
    HT_TORTURE_ALIGNMENTS,
    HT_TORTURE_REALLOC,
    HT_TORTURE_REFUSALS,
    HT_TORTURE_THREADS,
    HT_TORTURE_THREAD_ENDS,
    HT_TORTURE_FORK,
    HT_TORTURE_NO_MEMORY,
    HT_TORTURE_PARTS
};

// How far the torture came.
struct ht_torture_record {
    uint32_t part;                 // under way; HT_TORTURE_PARTS: it has ended
    uint32_t done;                 // a bit for each part that has come to its end
    uint32_t lacking;              // a bit for each ht_verified_function that the allocator has not
    uint32_t threads, processors;  // at once
    _Atomic uint32_t departures[HT_DEPARTURES];  // a bit for each function
    _Atomic uint32_t told
        [HT_TORTURE_PARTS];  // a bit for each kind of violation: the first is told, the others are counted
    // The call that the initial thread made last.
    uint32_t function;
    uint64_t bytes, alignment;
    _Atomic uint64_t calls, crossing_frees, threads_ended, moved, in_place;
    uint64_t freed_bytes, returned_bytes;  // at the end of a large heap: freed, and given back to the kernel
};

struct ht_verify_findings {
    _Atomic uint64_t counts[HT_VIOLATION_KINDS];
    _Atomic uint64_t violations;  // of all kinds
    _Atomic uint64_t told;        // of them, those that are in `first`, or would be if there were room
    _Atomic uint64_t known;       // not among them: explained by a known fault of the allocator
    struct ht_violation first[HT_VIOLATIONS_REPORTED];
    uint32_t usable_unknown;  // 1: the allocator has no malloc_usable_size
    uint64_t blocks_checked;  // at free, realloc and the end
    // What was exercised: how often each function returned a block, the largest that one asked for.
    _Atomic uint64_t blocks_by[HT_VERIFIED_FUNCTIONS];
    _Atomic uint64_t largest_bytes, largest_alignment;
    struct ht_torture_record torture;  // of its own run
};

#endif
