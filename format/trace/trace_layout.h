// SPDX-License-Identifier: Apache-2.0
// The on-disk structs of trace.bin and their limits (docs/reference/trace-format.md).
#ifndef HEAPTAPE_TRACE_LAYOUT_H
#define HEAPTAPE_TRACE_LAYOUT_H

#include <assert.h>
#include <stdint.h>

#define HT_TRACE_MAGIC     "HTAPETRC"
#define HT_TRACE_END_MAGIC "HTAPEEND"
#define HT_SECTION_MAGIC   0x4b425448u  // "HTBK"

enum {
    HT_TRACE_VERSION = 2,
    HT_TRACE_MIN_READER = 2,
    HT_SECTION_ROWS_MAX = 65536,
    HT_SECTION_PAYLOAD_BYTES_MAX = 64 << 20,
    HT_COLUMNS_MAX = 16,
    HT_THREADS_MAX = 1 << 24,
    HT_TOKENS_MAX = 256,
    HT_SHORT_TIMES = 15,  // times of so many units and more have a part in the long time column
    // What a file may make a reader keep in memory (docs/reference/trace-format.md, "Limits").
    HT_TEXT_BYTES_MAX = 1 << 20,
    HT_FACT_ROWS_FREE = 1 << 20,
    HT_FACT_ROWS_PER_BYTE = 4,
    HT_NUMBERS_FREE = 1024,
    HT_SLOTS_PER_EVENT = 8
};

enum ht_section_kind {
    HT_SECTION_CONTEXT = 1,
    HT_SECTION_EVENTS,
    HT_SECTION_SAMPLES,
    HT_SECTION_RESIDENCY,
    HT_SECTION_THREADS,
    HT_SECTION_TOTALS,
    HT_SECTION_INDEX,
    HT_SECTION_RESIDENCY_STEPS,
    HT_SECTION_MODULES,
    HT_SECTION_LOCATIONS,
    HT_SECTION_CALLERS,
    HT_SECTION_SITES,
    HT_SECTION_NAMES,
    HT_SECTION_STRINGS,
    HT_SECTION_PRELUDE,
    HT_SECTION_PRELUDE_THREADS,
    HT_SECTION_MEMBER,  // this one and the next two: of the trace of a group
    HT_SECTION_LAYOUT,
    HT_SECTION_PAGE_STATES
};

enum ht_event_column {
    HT_COLUMN_TOKEN = 1,
    HT_COLUMN_RUN_THREAD,
    HT_COLUMN_RUN_LENGTH,
    HT_COLUMN_TIME,
    HT_COLUMN_LONG_TIME,
    HT_COLUMN_TOKEN_OP,
    HT_COLUMN_TOKEN_CODE,
    HT_COLUMN_TOKEN_SIZE,
    HT_COLUMN_TOKEN_EXTRA,
    HT_COLUMN_NAMED,
    HT_COLUMN_SLOT,
    HT_COLUMN_SIZE,
    HT_COLUMN_EXTRA,
    HT_COLUMN_ACROSS,
    HT_COLUMN_JOINED,
    HT_COLUMN_SITE
};

enum ht_trace_feature {
    HT_TRACE_FEATURE_QUERIES = 1,
    HT_TRACE_FEATURE_CONTROLS = 2,
    HT_TRACE_FEATURE_GROUP = 4  // it holds other traces, and no events
};
// Queries that are part of a token.
enum ht_joined { HT_JOINED_BEFORE = 1, HT_JOINED_AFTER = 2 };
enum ht_transform { HT_TRANSFORM_PLAIN, HT_TRANSFORM_DIFFERENCE, HT_TRANSFORM_NIBBLES };
enum ht_compression { HT_STORED, HT_ZSTD };

struct ht_trace_header {
    char magic[8];
    uint16_t version, min_reader;
    uint32_t features;
    uint32_t time_unit_ns;
    uint32_t block_events_max;
    uint8_t zero[32];
    uint64_t checksum;
};
static_assert(sizeof(struct ht_trace_header) == 64, "trace header");

struct ht_section_header {
    uint32_t magic;
    uint8_t kind, columns;
    uint16_t zero16;
    uint32_t payload_bytes;
    uint32_t rows;
    uint64_t first_event;
    uint64_t first_time;
    uint64_t zero64;
    uint64_t checksum;
};
static_assert(sizeof(struct ht_section_header) == 48, "section header");

struct ht_column_entry {
    uint8_t id, width, transform, compression;
    uint32_t values;
    uint32_t stored_bytes;
    uint32_t zero;
};
static_assert(sizeof(struct ht_column_entry) == 16, "column entry");

struct ht_trace_footer {
    char magic[8];
    uint64_t index_offset;
    uint64_t file_bytes;
    uint64_t checksum;
};
static_assert(sizeof(struct ht_trace_footer) == 32, "trace footer");

// Do the events up to this one account for such a slot, such a thread? Code that makes a table of them asks,
// so that a file of a few bytes does not ask for gigabytes. A converter takes new slots eight at a time.
static inline int ht_slot_is_due(uint32_t slot, uint64_t event) {
    return slot < HT_NUMBERS_FREE || (slot - HT_NUMBERS_FREE) / HT_SLOTS_PER_EVENT <= event;
}
static inline int ht_thread_is_due(uint32_t thread, uint64_t event) {
    return thread < HT_NUMBERS_FREE || thread - HT_NUMBERS_FREE <= event;
}

// Where a section lies: one row of the index.
struct ht_section_place {
    uint64_t offset;
    uint32_t kind, rows;
    uint64_t first_event, first_time;
};

#endif
