// The replay form: a trace decoded once, by the launcher, into what the measured child executes.
// It lives in a memfd that every child maps, so its pages are RssShmem and never count as an allocator's.
//
// A stream is an array of 64-bit words, one stream per replay thread:
//
//     63            32 31            3 2  0
//     [      arg      ][    slot     ][ op ]
//
// The low half less the op is the slot's offset in a table of pointers, so that finding it costs the engine
// nothing. Rarer operands follow as plain 64-bit words. free(NULL) is a free of slot 0. Every stream ends in
// HT_WORDS_PADDING unused words, because the engine reads ahead to prefetch the slot table.
#ifndef HEAPTAPE_REPLAY_FORM_H
#define HEAPTAPE_REPLAY_FORM_H

#include <assert.h>
#include <stdint.h>

enum ht_word_op {
    HT_WORD_FREE,     // slot
    HT_WORD_MALLOC,   // slot, arg: size
    HT_WORD_CALLOC,   // slot, arg: size; then the count
    HT_WORD_REALLOC,  // slot, arg: size; then the size so far
    HT_WORD_WIDE,     // slot, arg: enum ht_wide; then size, its extra operand, pages to touch
    HT_WORD_TIME,     // arg and slot: trace time in ns of the op that comes next
    HT_WORD_WAIT,     // slot, arg: the handover that must have happened
    HT_WORD_PUBLISH   // slot, arg: the number of this handover
};

// Calls of which any operand can have 64 bits; the only form of the rarer ones. In brackets the extra
// operand.
enum ht_wide {
    HT_WIDE_MALLOC,
    HT_WIDE_CALLOC,        // (count)
    HT_WIDE_REALLOC,       // (size so far)
    HT_WIDE_REALLOC_NULL,  // realloc(NULL, size)
    HT_WIDE_ALIGNED        // posix_memalign (alignment)
};

enum {
    HT_WORD_OP_BITS = 3,
    HT_WORD_SLOT_BITS = 29,
    HT_WORDS_PADDING = 16,
    HT_WORDS_AHEAD = 8,  // how far ahead the slot table is prefetched, in words
    HT_TOUCH_PAGE_BYTES = 4096
};
static_assert(1 << HT_WORD_OP_BITS == sizeof(void *), "a slot's offset is the low half less the op");
static_assert(HT_WORDS_AHEAD < HT_WORDS_PADDING, "reading ahead stays inside the stream");

#define HT_SLOTS_LIMIT   (1u << HT_WORD_SLOT_BITS)
#define HT_TIME_LIMIT_NS (1ull << (HT_WORD_SLOT_BITS + 32))
#define HT_PAGES_BY_RULE UINT64_MAX

// A thread tells its place in trace time before any op that is this much later than the place it told last.
// The window between threads must not be smaller (see replay_window.c).
#define HT_TIME_STEP_NS 100000ull

// Times cost a lookup of the window; a mark costs nothing until the engine reaches it.
// Marks of the sampled pass: an op to be timed, with its function. Marks of the memory pass: RSS to be read,
// with the number of the sample. Position is the index of the op's first word.
struct ht_mark {
    uint64_t word : 40;
    uint64_t value : 24;
};
static_assert(sizeof(struct ht_mark) == 8, "mark");

struct ht_stream {
    uint64_t words_offset, words_count;    // offsets are bytes from the start of the form
    uint64_t timed_offset, timed_count;    // struct ht_mark
    uint64_t sample_offset, sample_count;  // struct ht_mark
    uint64_t start_ns;                     // trace time of its first op
    uint64_t operations;
    uint32_t stays;  // 1 if the thread lived to the end of the process
    uint32_t zero;
};
static_assert(sizeof(struct ht_stream) == 72, "stream");

#define HT_FORM_MAGIC 0x316d726f66706174ull  // "tapform1"
#define HT_NO_STREAM  UINT32_MAX

struct ht_form {
    uint64_t magic;
    uint64_t bytes;
    uint64_t streams_offset;
    uint32_t streams;
    uint32_t initial_stream;  // the one that runs on the initial thread, or HT_NO_STREAM
    uint32_t slots;           // slots 0 to slots-1 are used
    uint32_t samples;
    uint64_t operations;
    // What a forked process inherited: allocated before anything is measured, by no stream.
    uint64_t inherited_offset, inherited_words;
};
static_assert(sizeof(struct ht_form) == 64, "form");

static inline uint64_t ht_word(enum ht_word_op op, uint32_t slot, uint32_t arg) {
    return (uint64_t)arg << 32 | slot << HT_WORD_OP_BITS | (uint32_t)op;
}
static inline uint64_t ht_word_time(uint64_t time_ns) { return time_ns << HT_WORD_OP_BITS | HT_WORD_TIME; }
static inline uint32_t ht_word_slot(uint64_t word) { return (uint32_t)word >> HT_WORD_OP_BITS; }
static inline enum ht_word_op ht_word_op(uint64_t word) {
    return (enum ht_word_op)(word & ((1u << HT_WORD_OP_BITS) - 1));
}
static inline uint32_t ht_word_arg(uint64_t word) { return (uint32_t)(word >> 32); }
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

#endif
