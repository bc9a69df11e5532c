// SPDX-License-Identifier: Apache-2.0
// The malloc family by number: the functions and variants that docs/reference/trace-format.md tables.
// Everything that knows "which event has a slot, a size, an extra" asks here.
#ifndef HEAPTAPE_OPS_H
#define HEAPTAPE_OPS_H

#include <stdbool.h>
#include <stdint.h>

enum ht_function {
    HT_MALLOC = 1,
    HT_CALLOC,
    HT_REALLOC,
    HT_REALLOCARRAY,
    HT_FREE,
    HT_POSIX_MEMALIGN,
    HT_ALIGNED_ALLOC,
    HT_MEMALIGN,
    HT_VALLOC,
    HT_PVALLOC,
    HT_FREE_SIZED,
    HT_FREE_ALIGNED_SIZED,
    HT_CFREE,
    HT_NEW,
    HT_NEW_ARRAY,
    HT_NEW_ALIGNED,
    HT_NEW_ARRAY_ALIGNED,
    HT_DELETE,
    HT_DELETE_ARRAY,
    HT_DELETE_SIZED,
    HT_DELETE_ARRAY_SIZED,
    HT_DELETE_ALIGNED,
    HT_DELETE_ARRAY_ALIGNED,
    HT_DELETE_SIZED_ALIGNED,
    HT_DELETE_ARRAY_SIZED_ALIGNED,
    HT_USABLE_SIZE,
    HT_CALLS_END = 28,  // those that follow are no calls of the family
    HT_ADVISE = 28,     // pseudo event: madvise of bytes of a block
    HT_CONTROL = 29,    // pseudo event: a call that controls an allocator (control_calls.h)
    HT_DROP = 30,       // pseudo event: a block whose free was not seen
    HT_INHERIT = 31,    // pseudo event: a block live when the trace begins
    HT_FUNCTIONS = 32
};

enum ht_variant {
    HT_PLAIN = 0,
    HT_NULL = 1,      // free(NULL), realloc(NULL, n)
    HT_FAILED = 2,    // returned NULL, nothing changed
    HT_RELEASED = 3,  // realloc(p, 0) that freed the block and returned NULL
    HT_FOREIGN = 4,   // the block was allocated before the recording began
    HT_VARIANTS = 5
};

enum ht_kind {
    HT_KIND_NONE,
    HT_KIND_ALLOC,
    HT_KIND_REALLOC,
    HT_KIND_FREE,
    HT_KIND_QUERY,
    HT_KINDS,
    HT_KIND_CONTROL = HT_KINDS,  // no call of the family: it is not timed, and in no figure by kind
    HT_KIND_ADVICE
};

// What an op carries; all zero for an op that does not exist.
struct ht_op_shape {
    bool valid, slot, size, extra;
    bool makes_object;  // its slot is a new object's
    bool ends_object;   // its slot is free afterwards
    bool query;         // its slot's object stays as it is
    bool control;       // no call of the family: of an allocator's control, or advice to the kernel
    bool site;          // somebody asked for memory: it may have a call site
};

struct ht_function_info {
    const char *name;  // NULL where the number is unused
    enum ht_kind kind;
    bool size, extra, pseudo;
};

extern const struct ht_function_info ht_functions[HT_FUNCTIONS];

static inline uint8_t ht_op(enum ht_function function, enum ht_variant variant) {
    return (uint8_t)(function | variant << 5);
}
static inline unsigned ht_op_function(uint8_t op) { return op & 31u; }
static inline unsigned ht_op_variant(uint8_t op) { return op >> 5; }
static inline bool ht_op_is_call(uint8_t op) { return ht_op_function(op) < HT_CALLS_END; }

// The shape of one op, computed from the table; build a table of 256 where it is hot.
struct ht_op_shape ht_op_shape(uint8_t op);

// ---- aligned calls that the standards forbid or leave to the allocator: one serves them, another returns NULL ----

enum ht_oddity {
    HT_NOT_ODD,
    HT_ODD_SIZE,      // of aligned_alloc: no multiple of the alignment
    HT_ODD_ALIGNMENT  // no power of two; of posix_memalign: no multiple of a pointer's size either
};

static inline enum ht_oddity ht_oddity_of(unsigned function, uint64_t alignment, uint64_t size) {
    bool aligns = function == HT_POSIX_MEMALIGN || function == HT_ALIGNED_ALLOC || function == HT_MEMALIGN;
    if (!aligns) return HT_NOT_ODD;
    if (!alignment || alignment & (alignment - 1)) return HT_ODD_ALIGNMENT;
    if (function == HT_POSIX_MEMALIGN && alignment % sizeof(void *)) return HT_ODD_ALIGNMENT;
    return function == HT_ALIGNED_ALLOC && size % alignment ? HT_ODD_SIZE : HT_NOT_ODD;
}

// ---- call sites ----

// What is known of a site's stack.
enum ht_site_flag {
    HT_SITE_CUT = 1,    // the stack is deeper than what was recorded
    HT_SITE_BROKEN = 2  // the unwinder could not go on before the thread's first frame
};

#endif
