// SPDX-License-Identifier: Apache-2.0
// What a program does with its heap, counted in one pass over a trace: sizes, lifetimes, threads, reallocs,
// churn. Memory is bounded by the live blocks (32 bytes a slot), not by the trace.
#ifndef HEAPTAPE_TRACE_STATS_H
#define HEAPTAPE_TRACE_STATS_H

#include "map64.h"
#include "site_stats.h"
#include "slot_table.h"
#include "trace_facts.h"

enum {
    STATS_CLASSES = 256,
    STATS_BANDS = 8,
    STATS_COLUMNS = 17,  // the threads with most calls from 1, all others in column 0
    STATS_EXACT_SIZES = 65536,
    STATS_LARGE_SIZES_MAX = 1 << 20,
    STATS_RATIOS = 10,
    STATS_ALIGNMENTS = 65,
    STATS_SHORT_EVENTS = 100,
    STATS_POINTS_MAX = 100000
};

// Sizes, lifetimes and lengths fall into classes: 0 to 8 each alone, then four to a power of two. The upper
// bound belongs to the class, as in an allocator: 57 to 64.
static inline unsigned stats_class_of(uint64_t value) {
    if (value < 5) return (unsigned)value;
    unsigned power = 63u ^ (unsigned)__builtin_clzll(value - 1);
    return 4 * (power - 1) + 1 + ((unsigned)((value - 1) >> (power - 2)) & 3);
}
uint64_t stats_class_upper(unsigned class);
static inline uint64_t stats_class_lower(unsigned class) {
    return class ? stats_class_upper(class - 1) + 1 : 0;
}

// The upper bounds of the bands of sizes by which lifetimes are distinguished; the last has none.
extern const uint64_t stats_band_upper[STATS_BANDS];

// A request is an allocation, or a realloc that returned a block.
struct stats_size_class {
    uint64_t requests, bytes;
    uint64_t live, live_bytes;
    // As they were at the peak of live bytes, if anything has changed since: see stats_class_at_peak.
    uint64_t peak_live, peak_live_bytes, peak_number;
    uint64_t unused;  // one cache line
};

// Blocks that a call ended, by events since their birth, and their last sizes. Inherited ones too, since the
// trace's beginning.
struct stats_ended_class {
    uint64_t blocks, bytes;
};

enum stats_unit { STATS_EVENTS, STATS_BYTES, STATS_TIME, STATS_UNITS };

struct stats_column {
    uint32_t thread;
    uint64_t allocations, allocated_bytes;
};

struct stats_pair {
    uint64_t frees, bytes;
};

// One stretch of time.
struct stats_point {
    uint64_t calls, requests, allocated_bytes, frees, freed_bytes;
    uint64_t live_end_bytes, live_peak_bytes, live_peak_time_ns;  // its first peak; its start if nothing rose
};

struct stats_reallocs {
    uint64_t resized, grown, shrunk, same;  // those that kept their object
    uint64_t from_null, released, foreign, failed;
    uint64_t added_bytes, removed_bytes;
    uint64_t kept_bytes;  // what a realloc that moves must copy
    uint64_t ratio[STATS_RATIOS];
    uint64_t chains, chain_length[STATS_CLASSES];  // reallocs in the life of each block that had any
    uint64_t chain_growth[STATS_RATIOS];           // its last size by its first
    uint64_t longest_chain;
};

struct trace_stats {
    uint64_t events, records, op_calls[256], op_bytes[256];
    uint64_t duration_ns;
    uint64_t allocations, requests, allocated_bytes, frees, freed_bytes;
    uint64_t zero_sized, largest_bytes, failed_largest_bytes;
    uint64_t live_bytes, live_objects, peak_live_bytes, peak_number, peak_event, peak_time_ns;
    uint64_t inherited_objects, inherited_bytes, drops, controls;
    struct stats_size_class size_class[STATS_CLASSES];
    struct stats_ended_class ended_class[STATS_CLASSES];
    // These count blocks whose birth and end are both in the trace.
    uint64_t lifetimes, lifetime[STATS_UNITS][STATS_BANDS][STATS_CLASSES];
    uint64_t short_lived, short_lived_bytes, inherited_ends;
    uint32_t columns;
    bool others;  // there is something in column 0
    struct stats_column column[STATS_COLUMNS];
    struct stats_pair pair[STATS_COLUMNS][STATS_COLUMNS];  // allocated by, freed by
    uint64_t cross_frees, cross_freed_bytes;
    struct stats_reallocs reallocs;
    uint64_t alignment[STATS_ALIGNMENTS], odd_alignments, aligned_bytes;  // by power of two
    // Exact counts of requests by size: all small sizes, and the first so many distinct large ones.
    uint64_t *exact_size;      // STATS_EXACT_SIZES + 1 counters
    struct map64 large_sizes;  // size -> requests
    uint64_t uncounted_large;  // requests of large sizes beyond the bound
    struct stats_point *point;
    uint32_t points, points_used;
    uint64_t point_ns;
    struct site_stats sites;
    // While counting.
    struct ht_trace_facts facts;
    struct slot_table blocks;
    // By slot, how often blocks that live still were resized, and their first sizes.
    struct map64 chains, chain_first;
    uint8_t *column_of;  // by thread
    uint8_t band_of[STATS_CLASSES];
    uint8_t what[256];  // by op
    struct stats_point totals_at_point;
    uint64_t point_end_ns, point_peak_bytes, point_peak_time_ns;
};

// points: how many stretches of time to distinguish, at most. duration_ns: of the trace, 0 if not known.
// Returns NULL with error. To be freed by trace_stats_free.
struct trace_stats *trace_stats_count(struct ht_trace_reader *reader, const char *path, uint32_t points,
                                      uint64_t duration_ns, struct ht_error *error);
void trace_stats_free(struct trace_stats *stats);

// A class's live blocks at the peak of live bytes.
void stats_class_at_peak(const struct trace_stats *stats, unsigned class, uint64_t *objects, uint64_t *bytes);

// Upper bound of the class that holds the given share of the counts; 0 if there are none.
uint64_t stats_quantile(const uint64_t counts[STATS_CLASSES], double share);

// The sizes asked for most often (by_bytes: that took most bytes), up to `room` of them. Returns how many.
struct stats_hot_size {
    uint64_t size, requests;
};
size_t stats_hot_sizes(const struct trace_stats *stats, bool by_bytes, struct stats_hot_size *hot,
                       size_t room);

// Upper bounds of the ratios that reallocs are counted by: new size to old; the last has none.
extern const double stats_ratio_upper[STATS_RATIOS];

#endif
