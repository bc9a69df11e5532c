// SPDX-License-Identifier: Apache-2.0
// The on-disk structs and record numbers of the raw log (docs/reference/raw-log-format.md).
#ifndef HEAPTAPE_RAW_LAYOUT_H
#define HEAPTAPE_RAW_LAYOUT_H

#include <assert.h>
#include <stdint.h>

#define HT_RAW_MAGIC   "HTAPERAW"
#define HT_CHUNK_MAGIC 0x4e575448u  // "HTWN"

enum {
    HT_RAW_VERSION = 1,
    HT_RAW_MIN_READER = 1,
    HT_RAW_HEADER_BYTES = 16384,
    HT_RAW_CONSUMER_OFFSET = 2048,  // path of the trace that has what was in the holes
    HT_RAW_CONSUMER_BYTES = 2048,
    HT_RAW_CONTEXT_OFFSET = 4096,
    HT_CHUNK_ALIGN = 4096,
    HT_CHUNK_BYTES_MAX = 1 << 24,
    HT_RECORD_BYTES_MAX = 32,  // a call record: 16 + 3 * 64 bits
    HT_MODIFIERS_MAX = 6,
    // Every append needs this much room: modifiers, the record, the zero that ends the chunk, one wide
    // store.
    HT_APPEND_ROOM_BYTES = HT_RECORD_BYTES_MAX * (HT_MODIFIERS_MAX + 1) + 32,
    HT_LARGE_BLOCK_BYTES = 16384,  // residency may be noted from this size on
    HT_SITE_FRAMES_MAX = 128,
    HT_SITES_MAX = 1 << 20,  // different stacks in a log
    // Calls without time that may follow each other, queries apart, and the bytes that they take.
    HT_UNTIMED_MAX = 255,
    HT_UNTIMED_BYTES_MAX = 16384
};

enum ht_clock_kind { HT_CLOCK_TSC = 1, HT_CLOCK_CNTVCT = 2, HT_CLOCK_GETTIME = 3 };
enum ht_raw_state { HT_RAW_RECORDING = 1, HT_RAW_STOPPED = 2, HT_RAW_EXITED = 3, HT_RAW_PAUSED = 4 };
enum ht_stop_reason {
    HT_STOP_NONE = 0,
    HT_STOP_NO_SPACE = 1,
    HT_STOP_SIZE_LIMIT = 2,
    HT_STOP_SANDBOX = 3,
    HT_STOP_CONTROL = 4,
    HT_STOP_FOLDER = 5,
    HT_STOP_MEMORY = 6,
    HT_STOP_EXIT = 7
};
enum ht_raw_feature {
    HT_RAW_FEATURE_CONSUMED = 1,
    HT_RAW_FEATURE_QUERIES = 2,
    HT_RAW_FEATURE_SITES = 4,
    HT_RAW_FEATURE_UNTIMED = 8,
    HT_RAW_FEATURE_OPERATORS = 16
};
// What heaptape ctl asks of a live recording.
enum ht_control { HT_CONTROL_NONE = 0, HT_CONTROL_RUN = 1, HT_CONTROL_PAUSE = 2, HT_CONTROL_STOP = 3 };

// Has a filter of system calls come that the recorder could not see? It asks heaptape record.
enum ht_filter_answer {
    HT_FILTER_UNASKED = 0,
    HT_FILTER_FORESEEN = 1,  // one may come
    HT_FILTER_WATCHED = 2,   // record knows
    HT_FILTER_ASKED = 3,
    HT_FILTER_NONE = 4,
    HT_FILTER_CAME = 5
};

enum ht_raw_op {
    HT_RAW_END = 0,
    HT_RAW_FREE = 1,
    HT_RAW_MALLOC = 2,
    HT_RAW_CALLOC = 3,
    HT_RAW_REALLOC_BEGIN = 4,
    HT_RAW_REALLOC_END = 5,
    HT_RAW_FREE_NULL = 6,
    HT_RAW_ALIGNED = 7,
    HT_RAW_REALLOC_NULL = 8,
    HT_RAW_QUERY = 9,
    // C++'s, which a reader gives as HT_RAW_MALLOC and HT_RAW_FREE with their function.
    HT_RAW_NEW = 10,
    HT_RAW_DELETE = 11,
    HT_RAW_DELETE_SIZED = 12,
    HT_RAW_LONG = 14,
    HT_RAW_MODIFIER = 15
};

enum ht_raw_modifier {
    HT_MODIFIER_FUNCTION = 1,
    HT_MODIFIER_COUNT = 2,
    HT_MODIFIER_ALIGNMENT = 3,
    HT_MODIFIER_FAILED = 4,
    HT_MODIFIER_LOW_BITS = 5,
    HT_MODIFIER_RESIDENT_BEFORE = 6,
    HT_MODIFIER_RESIDENT_AFTER = 7,
    HT_MODIFIER_SITE = 8  // of this and all later allocations in the chunk
};

enum { HT_FAILED_NULL = 1, HT_FAILED_RELEASED = 2 };

enum ht_raw_long {
    HT_LONG_SAMPLE = 1,
    HT_LONG_THREAD_END = 2,
    HT_LONG_RESIDENT_AT_EXIT = 3,
    HT_LONG_FORK = 4,
    HT_LONG_EXIT = 5,
    HT_LONG_RESIDENT_SO_FAR = 6,
    HT_LONG_MODULE = 7,
    HT_LONG_SITE = 8,
    HT_LONG_SITE_LIKE = 9,  // a site with frames of one before
    HT_LONG_CONTROL = 10,   // of an allocator (control_calls.h)
    HT_LONG_ADVISE = 11,    // madvise
    HT_LONG_HEAP_PIECE = 12
};

// With the number of pieces, in the record behind them: blocks from before the recording may lie in them.
#define HT_PIECES_LATE (UINT64_C(1) << 63)
// In place of an address: no pieces follow.
#define HT_PIECES_MAPPED UINT64_C(1)

// Which frames of HT_LONG_SITE_LIKE are those of another site: `count` of them, that one's from `from` on, from `at` on.
struct ht_site_like {
    uint32_t base;
    uint8_t at, from, count, zero;
};
_Static_assert(sizeof(struct ht_site_like) == 8, "a word of the record");

// Freed blocks that were probed, by how long a load of their first byte took: freed_probe_step_counts each,
// the last one and more.
enum { HT_RAW_FREED_PROBES = 32 };

struct ht_clock_pair {
    uint64_t stamp, mono_ns;
};

struct ht_raw_header {
    char magic[8];
    uint16_t version, min_reader;
    uint32_t features;
    uint32_t header_bytes, page_bytes;
    uint32_t pid, sequence;
    uint32_t parent_pid, parent_sequence;
    uint64_t fork_stamp;
    uint64_t start_realtime_ns;
    uint32_t clock_kind, clock_shift;
    struct ht_clock_pair first_pair;
    struct ht_clock_pair last_pair[2];
    uint64_t chunks_end;
    uint64_t reserve_bytes;
    uint32_t state, stop_reason, stop_errno, streams;
    uint64_t stop_stamp;
    uint64_t lost_calls;
    uint32_t context_bytes, control;
    uint32_t append_cost_calls, append_cost_counts;
    uint64_t upkeep_counts;
    uint32_t freed_probe_floor_counts, freed_probe_step_counts;
    uint64_t freed_probes[HT_RAW_FREED_PROBES];
    uint64_t tick_ns;
    uint64_t ended_calls;    // of the streams whose thread has ended, and of the one that ended the process
    uint64_t unsited_calls;  // allocations whose stack was not known, and not walked: that had taken too much
    uint32_t filter_answer, filters_before;
};
static_assert(sizeof(struct ht_raw_header) == 480, "raw header");
static_assert(__builtin_offsetof(struct ht_raw_header, chunks_end) == 112, "raw header");
static_assert(__builtin_offsetof(struct ht_raw_header, context_bytes) == 160, "raw header");

struct ht_raw_chunk {
    uint32_t magic, stream, tid, index;
    uint64_t bytes;
    uint64_t base_stamp, base_address;
    uint32_t used;
    uint32_t outer;  // number of the stream that this one is nested in, plus one; 0: none
    uint64_t calls_before;
    uint64_t zero;
};
static_assert(sizeof(struct ht_raw_chunk) == 64, "chunk header");

#endif
