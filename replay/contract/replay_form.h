// SPDX-License-Identifier: Apache-2.0
// The replay form: a trace decoded by the launcher into what the measured child executes. It lives in a
// memfd that every child maps, so its pages are RssShmem and never count as an allocator's.
//
// A stream holds one replay thread's 64-bit words, in segments that lead from one to the next:
//
//     63            32 31            3 2  0
//     [      arg      ][    slot     ][ op ]
//
// The low half less the op is the slot's offset in a table of pointers, so that finding it costs the engine
// nothing. Rarer operands follow as plain 64-bit words. The argument of FREE and MALLOC has two parts: below bit 30
// bytes, above them the function, as an enum ht_free_kind or ht_new_kind. free(NULL) is a free of slot 0. Every segment ends in
// an END mark and HT_WORDS_PADDING unused words, because the engine reads ahead to prefetch the slot table.
//
// A form is *held* (all of it is there before a child starts, and every child reads the same) or *streamed*
// (longer than the memory allowed: the launcher decodes it once more beside each child, into a pool of
// segments that are written again once they have been read).
#ifndef HEAPTAPE_REPLAY_FORM_H
#define HEAPTAPE_REPLAY_FORM_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum ht_word_op {
    HT_WORD_FREE,     // slot, arg: kind, bytes of the block that are touched; all of them, where it is sized
    HT_WORD_MALLOC,   // slot, arg: kind, size
    HT_WORD_CALLOC,   // slot, arg: size; then the count
    HT_WORD_REALLOC,  // slot, arg: size; then the size so far
    HT_WORD_WIDE,     // slot, arg: enum ht_wide; then size, its extra operand, pages to touch
    HT_WORD_TIME,     // arg and slot: trace time in ns of the op that comes next
    HT_WORD_ORDER,    // slot, arg: number of a dependency << 1 | whether to publish it or wait for it
    HT_WORD_MARK      // slot: enum ht_mark, arg: its number
};

// Calls of which any operand can have 64 bits; the only form of the rarer ones. In brackets the extra
// operand.
enum ht_wide {
    HT_WIDE_MALLOC,        // (ht_new_kind)
    HT_WIDE_CALLOC,        // (count)
    HT_WIDE_REALLOC,       // (size so far)
    HT_WIDE_REALLOC_NULL,  // realloc(NULL, size)
    HT_WIDE_ALIGNED,       // posix_memalign (alignment)
    HT_WIDE_QUERY,         // malloc_usable_size of the slot's block
    HT_WIDE_FREE,          // (ht_how_to_free); for pages the touched bytes, as of HT_WORD_FREE
    HT_WIDE_TOUCH,  // no call: pages of the slot's block are touched (the first; then the one behind the last)
    HT_WIDE_STEER,  // no call of the family: enum ht_steer in the size's place, then its two operands
    HT_WIDE_ADVISE  // no call of the family: madvise of so many bytes of the slot's block (from; then the advice)
};

// Calls by which a program controls its allocator, and that some allocator obeys.
enum ht_steer {
    HT_STEER_MALLOPT,              // parameter, value
    HT_STEER_TRIM,                 // -, pad
    HT_STEER_MI_COLLECT,           // -, force
    HT_STEER_RELEASE_FREE_MEMORY,  // gperftools'
    HT_STEER_RELEASE_TO_SYSTEM,    // -, bytes
    // jemalloc's: of an arena its number, and the value.
    HT_STEER_ARENA_PURGE,
    HT_STEER_ARENA_DECAY,
    HT_STEER_ARENA_DIRTY_DECAY,
    HT_STEER_ARENA_MUZZY_DECAY,
    HT_STEER_DIRTY_DECAY,
    HT_STEER_MUZZY_DECAY,
    HT_STEER_BACKGROUND_THREAD,
    HT_STEER_TCACHE_FLUSH,
    HT_STEERS
};

// Functions that make a block of a size, and that end one. The last five of these are called with the block's size
// too, those of aligned blocks with the alignment.
enum ht_new_kind { HT_BY_MALLOC, HT_BY_NEW, HT_BY_NEW_ARRAY, HT_NEW_KINDS };
enum ht_free_kind {
    HT_BY_FREE,
    HT_BY_DELETE,
    HT_BY_DELETE_ARRAY,
    HT_BY_DELETE_SIZED,  // so far those that fit into a single word
    HT_BY_DELETE_ARRAY_SIZED,
    HT_BY_DELETE_ALIGNED,
    HT_BY_DELETE_ARRAY_ALIGNED,
    HT_BY_FREE_SIZED,
    HT_BY_FREE_ALIGNED,
    HT_FREE_KINDS
};

// At marks a pass stops to measure. Each pass stops at marks of some kinds and runs over the others.
enum ht_mark {
    HT_MARK_END,    // of the segment
    HT_MARK_TIMED,  // the op that follows is to be timed; arg: number of the reading
    HT_MARK_SAMPLE  // RSS is to be read; arg: number of the sample
};

enum {
    HT_WORD_OP_BITS = 3,
    HT_WORD_SLOT_BITS = 29,
    HT_WORDS_AHEAD = 8,  // how far ahead the slot table is prefetched, in words
    HT_WORDS_PADDING = HT_WORDS_AHEAD,
    HT_SEGMENT_UNIT_BYTES = 64,
    HT_TOUCH_PAGE_BYTES = 4096
};
static_assert(1 << HT_WORD_OP_BITS == sizeof(void *), "a slot's offset is the low half less the op");

// A program may use little of calloc's blocks of this size and more, so what is not known of them is left
// alone.
#define HT_CALLOC_LEFT_BYTES 65536u

#define HT_ARG_KIND_SHIFT    30
#define HT_ARG_BYTES_MAX     ((1u << HT_ARG_KIND_SHIFT) - 1)
#define HT_SLOTS_LIMIT       (1u << HT_WORD_SLOT_BITS)
#define HT_TIME_LIMIT_NS     (1ull << (HT_WORD_SLOT_BITS + 32))
#define HT_PAGES_BY_RULE     UINT64_MAX
#define HT_DEPENDENCY_NUMBER (UINT32_MAX >> 1)  // dependencies of a slot are numbered modulo this and one

// A thread gives its place in trace time before any op that is this much later than the place it gave last.
// The window between threads must not be smaller (see replay_window.c).
#define HT_TIME_STEP_NS 100000ull

// Segments are named by their offset in units of 64 bytes. The next one's name is a futex where the form is
// streamed: it changes once, from 0 to the name or, after the last, to HT_SEGMENT_NONE.
#define HT_SEGMENT_NONE UINT32_MAX
struct ht_segment {
    _Atomic uint32_t next_unit;
    _Atomic uint32_t readers;  // streamed: how many have yet to leave it; 0: it can be written again
    uint32_t words;            // the END mark included
    uint32_t zero[13];
};
static_assert(sizeof(struct ht_segment) == HT_SEGMENT_UNIT_BYTES, "words follow on a cache line");

struct ht_stream {
    uint64_t start_ns;  // trace time of its first op
    uint64_t operations;
    uint32_t stays;               // 1 if the thread lived to the end of the process
    _Atomic uint32_t first_unit;  // as next_unit
};
static_assert(sizeof(struct ht_stream) == 24, "stream");

#define HT_FORM_MAGIC 0x336d726f66706174ull  // "tapform3"
#define HT_NO_STREAM  UINT32_MAX

struct ht_form {
    uint64_t magic;
    uint64_t bytes;
    uint64_t streams_offset;
    uint64_t operations;
    uint32_t streams;         // one more follows: what a forked process inherited, allocated before anything
                              // is measured
    uint32_t initial_stream;  // the one that runs on the initial thread, or HT_NO_STREAM
    uint32_t slots;           // slots 0 to slots-1 are used
    uint32_t samples, readings;
    uint32_t streamed;               // 1: segments come while the child runs, and for what follows
    _Atomic uint32_t segments_left;  // a futex: how many segments have been left by all their readers
    // A futex: 1: a thread that finds no segment waits until the pool is full again.
    _Atomic uint32_t filling;
    _Atomic uint32_t broken;  // 1: the trace cannot be decoded again, nothing more comes
    uint32_t zero;
    _Atomic uint64_t complete_ns;  // every op before this trace time is in a segment that has been linked
    uint64_t end_ns;               // trace time at which it ends; 0: not known
};
static_assert(sizeof(struct ht_form) == 88, "form");

static inline uint64_t ht_word(enum ht_word_op op, uint32_t slot, uint32_t arg) {
    return (uint64_t)arg << 32 | slot << HT_WORD_OP_BITS | (uint32_t)op;
}
static inline uint64_t ht_word_time(uint64_t time_ns) { return time_ns << HT_WORD_OP_BITS | HT_WORD_TIME; }
static inline uint64_t ht_word_mark(enum ht_mark mark, uint32_t number) {
    return ht_word(HT_WORD_MARK, mark, number);
}
static inline uint64_t ht_word_order(uint32_t slot, uint32_t dependency, uint32_t publish) {
    return ht_word(HT_WORD_ORDER, slot, dependency << 1 | publish);
}
static inline uint32_t ht_word_slot(uint64_t word) { return (uint32_t)word >> HT_WORD_OP_BITS; }
static inline enum ht_word_op ht_word_op(uint64_t word) {
    return (enum ht_word_op)(word & ((1u << HT_WORD_OP_BITS) - 1));
}
static inline uint32_t ht_word_arg(uint64_t word) { return (uint32_t)(word >> 32); }
// These are of FREE and MALLOC.
static inline uint32_t ht_arg(unsigned kind, uint64_t bytes) {
    return kind << HT_ARG_KIND_SHIFT | (uint32_t)bytes;
}
static inline unsigned ht_arg_kind(uint32_t arg) { return arg >> HT_ARG_KIND_SHIFT; }
static inline uint32_t ht_arg_bytes(uint32_t arg) { return arg & HT_ARG_BYTES_MAX; }
static inline uint64_t ht_word_time_ns(uint64_t word) { return word >> HT_WORD_OP_BITS; }
// Words that an op takes, the first included.
static inline unsigned ht_word_length(uint64_t word) {
    switch (ht_word_op(word)) {
    case HT_WORD_CALLOC:
    case HT_WORD_REALLOC: return 2;
    case HT_WORD_WIDE: return 4;
    default: return 1;
    }
}

static inline struct ht_stream *ht_form_streams(const struct ht_form *form) {
    return (struct ht_stream *)((char *)form + form->streams_offset);
}
static inline struct ht_segment *ht_form_segment(const struct ht_form *form, uint32_t unit) {
    return (struct ht_segment *)((char *)form + (uint64_t)unit * HT_SEGMENT_UNIT_BYTES);
}
static inline const uint64_t *ht_segment_words(const struct ht_segment *segment) {
    return (const uint64_t *)(segment + 1);
}

// No call, but pages that are touched: their first, and the one behind their last, are the call's extra and
// pages.
static inline bool ht_word_touches(uint64_t word) {
    return ht_word_op(word) == HT_WORD_WIDE && ht_word_arg(word) == HT_WIDE_TOUCH;
}

// Advice that is none of the kernel's: the bytes are written again.
enum { HT_ADVISE_WRITTEN = 255 };
static inline bool ht_word_advises(uint64_t word) {
    return ht_word_op(word) == HT_WORD_WIDE && ht_word_arg(word) == HT_WIDE_ADVISE;
}

static inline bool ht_word_steers(uint64_t word) {
    return ht_word_op(word) == HT_WORD_WIDE && ht_word_arg(word) == HT_WIDE_STEER;
}

static inline uint64_t ht_how_to_free(enum ht_free_kind kind, uint64_t alignment) {
    return alignment << 8 | kind;
}
static inline enum ht_free_kind ht_free_kind(uint64_t how) { return (enum ht_free_kind)(how & 0xff); }
static inline uint64_t ht_free_alignment(uint64_t how) { return how >> 8; }

static inline bool ht_word_queries(uint64_t word) {
    return ht_word_op(word) == HT_WORD_WIDE && ht_word_arg(word) == HT_WIDE_QUERY;
}

// One call as its words say it, for passes that need not be fast.
struct ht_word_call {
    enum ht_wide call;
    bool frees;
    uint32_t slot;
    uint64_t size, extra, pages;  // extra: as of enum ht_wide
};

static inline struct ht_word_call ht_word_call(const uint64_t *word) {
    uint32_t arg = ht_word_arg(word[0]);
    struct ht_word_call call = {.slot = ht_word_slot(word[0]), .size = arg, .pages = HT_PAGES_BY_RULE};
    switch (ht_word_op(word[0])) {
    case HT_WORD_FREE:
    case HT_WORD_MALLOC:
        call.frees = ht_word_op(word[0]) == HT_WORD_FREE;
        call.call = call.frees ? HT_WIDE_FREE : HT_WIDE_MALLOC;
        call.size = ht_arg_bytes(arg);
        call.extra = ht_arg_kind(arg);
        break;
    case HT_WORD_CALLOC:
    case HT_WORD_REALLOC:
        call.call = ht_word_op(word[0]) == HT_WORD_CALLOC ? HT_WIDE_CALLOC : HT_WIDE_REALLOC;
        call.extra = word[1];
        break;
    default:
        assert(ht_word_op(word[0]) == HT_WORD_WIDE);
        call.call = (enum ht_wide)arg;
        call.frees = arg == HT_WIDE_FREE;
        call.size = word[1];
        call.extra = word[2];
        call.pages = word[3];
    }
    return call;
}

#endif
