// SPDX-License-Identifier: Apache-2.0
#include "trace_stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"

const uint64_t stats_band_upper[STATS_BANDS] = {16, 64, 256, 1024, 4096, 65536, 1 << 20, UINT64_MAX};
const double stats_ratio_upper[STATS_RATIOS] = {0.5, 0.999999999, 1, 1.125, 1.25, 1.5, 2, 4, 16, 1e300};

// What an op asks of the pass: the low bits one of these, and flags.
enum { NOTHING, MAKE, END, RESIZE, FAILED, QUERY, KINDS_MASK = 7 };
enum { COUNTED = 8, ALIGNED = 16, PSEUDO = 32 };

// A slot's block. One half of a cache line: the pass meets them in no order.
struct block {
    uint64_t bytes, time_ns;
    uint64_t allocated_before;  // bytes that the program had asked for when it was born
    uint64_t event : 37;
    uint64_t live : 1;
    uint64_t resized : 1;
    uint64_t inherited : 1;
    uint64_t thread : 24;
};
_Static_assert(sizeof(struct block) == 32, "block");
_Static_assert(HT_THREADS_MAX <= 1 << 24, "a block names any thread");
#define EVENTS_MAX (UINT64_C(1) << 37)

uint64_t stats_class_upper(unsigned class) {
    if (class < 5) return class;
    unsigned power = (class - 1) / 4 + 1, quarter = (class - 1) % 4;
    return ((UINT64_C(5) + quarter) << (power - 2)) - (power == 63 && quarter == 3);
}

void stats_class_at_peak(const struct trace_stats *stats, unsigned class, uint64_t *objects,
                         uint64_t *bytes) {
    const struct stats_size_class *c = &stats->size_class[class];
    bool changed = c->peak_number == stats->peak_number;
    *objects = changed ? c->peak_live : c->live;
    *bytes = changed ? c->peak_live_bytes : c->live_bytes;
}

uint64_t stats_quantile(const uint64_t counts[STATS_CLASSES], double share) {
    uint64_t sum = 0, below = 0;
    for (unsigned i = 0; i < STATS_CLASSES; i++) sum += counts[i];
    if (!sum) return 0;
    for (unsigned i = 0; i < STATS_CLASSES; i++) {
        below += counts[i];
        if ((double)below >= share * (double)sum) return stats_class_upper(i);
    }
    return UINT64_MAX;
}

static int by_requests(const void *a, const void *b) {
    const struct stats_hot_size *left = a, *right = b;
    if (left->requests != right->requests) return left->requests < right->requests ? 1 : -1;
    return (left->size > right->size) - (left->size < right->size);
}

static int by_bytes_asked(const void *a, const void *b) {
    const struct stats_hot_size *left = a, *right = b;
    uint64_t l = left->size * left->requests, r = right->size * right->requests;
    if (l != r) return l < r ? 1 : -1;
    return (left->size > right->size) - (left->size < right->size);
}

size_t stats_hot_sizes(const struct trace_stats *stats, bool by_bytes, struct stats_hot_size *hot,
                       size_t room) {
    size_t count = 0;
    struct stats_hot_size *all = malloc((STATS_EXACT_SIZES + 1 + stats->large_sizes.count) * sizeof *all);
    if (!all) return 0;
    for (uint64_t size = 0; size <= STATS_EXACT_SIZES; size++)
        if (stats->exact_size[size]) all[count++] = (struct stats_hot_size){size, stats->exact_size[size]};
    for (size_t i = 0; i < stats->large_sizes.room; i++)
        if (map64_has(&stats->large_sizes, i))
            all[count++] =
                (struct stats_hot_size){stats->large_sizes.entry[i].key, stats->large_sizes.entry[i].value};
    qsort(all, count, sizeof *all, by_bytes ? by_bytes_asked : by_requests);
    if (count > room) count = room;
    memcpy(hot, all, count * sizeof *hot);
    free(all);
    return count;
}

// ---- stretches of time ----

// What has been counted since the last stretch ended becomes the next one.
static void close_point(struct trace_stats *stats, uint32_t i, uint64_t calls) {
    struct stats_point *point = &stats->point[i], *before = &stats->totals_at_point;
    struct stats_point now = {.calls = calls,
                              .requests = stats->requests,
                              .allocated_bytes = stats->allocated_bytes,
                              .frees = stats->frees,
                              .freed_bytes = stats->freed_bytes};
    *point = (struct stats_point){.calls = now.calls - before->calls,
                                  .requests = now.requests - before->requests,
                                  .allocated_bytes = now.allocated_bytes - before->allocated_bytes,
                                  .frees = now.frees - before->frees,
                                  .freed_bytes = now.freed_bytes - before->freed_bytes,
                                  .live_end_bytes = stats->live_bytes,
                                  .live_peak_bytes = stats->point_peak_bytes,
                                  .live_peak_time_ns = stats->point_peak_time_ns};
    *before = now;
    stats->point_peak_bytes = stats->live_bytes;
}

// Stretches twice as long, half as many.
static void double_points(struct trace_stats *stats) {
    for (uint32_t i = 0; i < stats->points_used; i += 2) {
        struct stats_point sum = stats->point[i];
        if (i + 1 < stats->points_used) {
            const struct stats_point *next = &stats->point[i + 1];
            sum.calls += next->calls;
            sum.requests += next->requests;
            sum.allocated_bytes += next->allocated_bytes;
            sum.frees += next->frees;
            sum.freed_bytes += next->freed_bytes;
            sum.live_end_bytes = next->live_end_bytes;
            if (next->live_peak_bytes > sum.live_peak_bytes) {
                sum.live_peak_bytes = next->live_peak_bytes;
                sum.live_peak_time_ns = next->live_peak_time_ns;
            }
        }
        stats->point[i / 2] = sum;
    }
    stats->points_used = (stats->points_used + 1) / 2;
    stats->point_ns *= 2;
}

// The event at time_ns lies behind the current stretch: closes it and begins the one that holds the event.
static void next_point(struct trace_stats *stats, uint64_t time_ns, uint64_t calls) {
    close_point(stats, stats->points_used++, calls);
    while (time_ns / stats->point_ns >= stats->points) double_points(stats);
    uint64_t current = time_ns / stats->point_ns;
    stats->point_peak_time_ns = current * stats->point_ns;
    // After a doubling the event may belong to a stretch that was just closed: it is opened again.
    if (current < stats->points_used) {
        const struct stats_point *again = &stats->point[--stats->points_used];
        struct stats_point *before = &stats->totals_at_point;
        before->calls -= again->calls;
        before->requests -= again->requests;
        before->allocated_bytes -= again->allocated_bytes;
        before->frees -= again->frees;
        before->freed_bytes -= again->freed_bytes;
        stats->point_peak_bytes = again->live_peak_bytes;  // no less than what is live
        stats->point_peak_time_ns = again->live_peak_time_ns;
    }
    for (; stats->points_used < current; stats->points_used++)
        stats->point[stats->points_used] =
            (struct stats_point){.live_end_bytes = stats->live_bytes,
                                 .live_peak_bytes = stats->live_bytes,
                                 .live_peak_time_ns = stats->points_used * stats->point_ns};
    stats->point_end_ns = (current + 1) * stats->point_ns;
}

// ---- one block ----

static inline void save_class(struct trace_stats *stats, struct stats_size_class *c) {
    if (c->peak_number == stats->peak_number) return;
    c->peak_live = c->live;
    c->peak_live_bytes = c->live_bytes;
    c->peak_number = stats->peak_number;
}

static inline void live_more(struct trace_stats *stats, uint64_t bytes) {
    struct stats_size_class *c = &stats->size_class[stats_class_of(bytes)];
    save_class(stats, c);
    c->live++;
    c->live_bytes += bytes;
    stats->live_bytes += bytes;
}

static inline void note_peak(struct trace_stats *stats, uint64_t event, uint64_t time_ns) {
    if (stats->live_bytes <= stats->point_peak_bytes) return;
    stats->point_peak_bytes = stats->live_bytes;
    stats->point_peak_time_ns = time_ns;
    if (stats->live_bytes <= stats->peak_live_bytes) return;
    stats->peak_live_bytes = stats->live_bytes;
    stats->peak_event = event;
    stats->peak_time_ns = time_ns;
    stats->peak_number++;
}

static inline void live_less(struct trace_stats *stats, uint64_t bytes) {
    struct stats_size_class *c = &stats->size_class[stats_class_of(bytes)];
    save_class(stats, c);
    c->live--;
    c->live_bytes -= bytes;
    stats->live_bytes -= bytes;
}

__attribute__((noinline)) static bool count_large_size(struct trace_stats *stats, uint64_t bytes) {
    struct map64 *sizes = &stats->large_sizes;
    size_t i = map64_find(sizes, bytes);
    if (bytes > stats->largest_bytes) stats->largest_bytes = bytes;
    if (map64_has(sizes, i)) sizes->entry[i].value++;
    else if (sizes->count < STATS_LARGE_SIZES_MAX) return map64_put(sizes, bytes, 1);
    else stats->uncounted_large++;
    return true;
}

static inline bool request(struct trace_stats *stats, uint8_t op, uint64_t bytes) {
    struct stats_size_class *c = &stats->size_class[stats_class_of(bytes)];
    c->requests++;
    c->bytes += bytes;
    stats->requests++;
    stats->allocated_bytes += bytes;
    stats->op_bytes[op] += bytes;
    if (__builtin_expect(bytes > STATS_EXACT_SIZES, 0)) return count_large_size(stats, bytes);
    stats->exact_size[bytes]++;
    return true;
}

__attribute__((noinline)) static void count_alignment(struct trace_stats *stats, uint64_t alignment,
                                                      uint64_t bytes) {
    stats->aligned_bytes += bytes;
    if (alignment && !(alignment & (alignment - 1))) stats->alignment[__builtin_ctzll(alignment)]++;
    else stats->odd_alignments++;
}

static unsigned ratio_class(uint64_t old, uint64_t new) {
    double ratio = old ? (double)new / (double)old : new ? 1e200 : 1;
    unsigned i = 0;
    while (i + 1 < STATS_RATIOS && ratio > stats_ratio_upper[i]) i++;
    return i;
}

// The block that was resized is gone, or the trace has ended.
static void end_chain(struct trace_stats *stats, uint64_t slot, uint64_t length, uint64_t last_bytes) {
    struct stats_reallocs *reallocs = &stats->reallocs;
    size_t first = map64_find(&stats->chain_first, slot);
    reallocs->chains++;
    reallocs->chain_length[stats_class_of(length)]++;
    reallocs->chain_growth[ratio_class(stats->chain_first.entry[first].value, last_bytes)]++;
    if (length > reallocs->longest_chain) reallocs->longest_chain = length;
}

__attribute__((noinline)) static void end_resized(struct trace_stats *stats, uint32_t slot,
                                                  const struct block *block) {
    size_t i = map64_find(&stats->chains, slot);
    end_chain(stats, slot, stats->chains.entry[i].value, block->bytes);
    map64_remove_at(&stats->chains, i);
    map64_remove_at(&stats->chain_first, map64_find(&stats->chain_first, slot));
}

// False for want of memory.
static bool lengthen_chain(struct trace_stats *stats, uint32_t slot, struct block *block) {
    if (block->resized) {
        stats->chains.entry[map64_find(&stats->chains, slot)].value++;
        return true;
    }
    block->resized = map64_put(&stats->chain_first, slot, block->bytes) && map64_put(&stats->chains, slot, 1);
    return block->resized;
}

static bool resize(struct trace_stats *stats, uint8_t op, uint32_t slot, uint32_t site, struct block *block,
                   uint64_t bytes) {
    struct stats_reallocs *reallocs = &stats->reallocs;
    uint64_t old = block->bytes;
    reallocs->resized++;
    reallocs->grown += bytes > old;
    reallocs->shrunk += bytes < old;
    reallocs->same += bytes == old;
    if (bytes > old) reallocs->added_bytes += bytes - old;
    else reallocs->removed_bytes += old - bytes;
    reallocs->kept_bytes += bytes < old ? bytes : old;
    reallocs->ratio[ratio_class(old, bytes)]++;
    if (!lengthen_chain(stats, slot, block)) return false;
    live_less(stats, old);
    stats->freed_bytes += old;
    live_more(stats, bytes);
    if (stats->sites.count) {
        site_stats_ended(&stats->sites, slot, old, stats->peak_number);
        site_stats_made(&stats->sites, slot, site, bytes, false, stats->peak_number);
    }
    block->bytes = bytes;
    return request(stats, op, bytes);
}

static inline void count_lifetime(struct trace_stats *stats, const struct block *block, uint64_t event,
                                  uint64_t time_ns) {
    unsigned band = stats->band_of[stats_class_of(block->bytes)];
    uint64_t events = event - block->event;
    stats->lifetimes++;
    stats->short_lived += events <= STATS_SHORT_EVENTS;
    stats->short_lived_bytes += events <= STATS_SHORT_EVENTS ? block->bytes : 0;
    stats->lifetime[STATS_EVENTS][band][stats_class_of(events)]++;
    stats->lifetime[STATS_BYTES][band][stats_class_of(stats->allocated_bytes - block->allocated_before)]++;
    stats->lifetime[STATS_TIME][band][stats_class_of(time_ns - block->time_ns)]++;
}

static void inherit(struct trace_stats *stats, struct block *block, uint64_t bytes) {
    block->inherited = 1;
    stats->inherited_objects++;
    stats->inherited_bytes += bytes;
}

// ---- the pass ----

struct row {
    uint64_t event, time_ns, size, extra;
    uint32_t slot, thread, site;
    uint8_t op, what;
};

static inline const char *make_block(struct trace_stats *stats, struct block *block, const struct row *row) {
    if (__builtin_expect(block->live, 0))
        return ht_found("expected an allocation into a free slot", row->slot);
    uint64_t bytes = row->what & COUNTED ? row->size * row->extra : row->size;
    *block = (struct block){.bytes = bytes,
                            .time_ns = row->time_ns,
                            .allocated_before = stats->allocated_bytes,
                            .event = row->event & (EVENTS_MAX - 1),
                            .live = 1,
                            .thread = row->thread & (HT_THREADS_MAX - 1)};
    live_more(stats, bytes);
    if (__builtin_expect(stats->sites.count > 0, 0))
        site_stats_made(&stats->sites, row->slot, row->site, bytes, row->what & PSEUDO, stats->peak_number);
    stats->live_objects++;
    if (__builtin_expect(row->what & PSEUDO, 0)) {
        inherit(stats, block, bytes);
    } else {
        stats->allocations++;
        struct stats_column *column = &stats->column[stats->column_of[row->thread]];
        column->allocations++;
        column->allocated_bytes += bytes;
        if (!request(stats, row->op, bytes)) return "";
        if (__builtin_expect(row->what & ALIGNED, 0)) count_alignment(stats, row->extra, bytes);
    }
    note_peak(stats, row->event, row->time_ns);
    return NULL;
}

static inline const char *end_block(struct trace_stats *stats, struct block *block, const struct row *row) {
    if (__builtin_expect(!block->live, 0)) return ht_found("expected a slot with a live object", row->slot);
    block->live = 0;
    live_less(stats, block->bytes);
    if (__builtin_expect(stats->sites.count > 0, 0)) {
        site_stats_ended(&stats->sites, row->slot, block->bytes, stats->peak_number);
        if (ht_op_variant(row->op) == HT_RELEASED) site_stats_called(&stats->sites, row->site);
    }
    stats->live_objects--;
    stats->freed_bytes += block->bytes;
    stats->frees++;
    struct stats_pair *pair = &stats->pair[stats->column_of[block->thread]][stats->column_of[row->thread]];
    bool cross = block->thread != row->thread;
    pair->frees++;
    pair->bytes += block->bytes;
    stats->cross_frees += cross;
    stats->cross_freed_bytes += cross ? block->bytes : 0;
    if (__builtin_expect(block->resized, 0)) end_resized(stats, row->slot, block);
    struct stats_ended_class *ended = &stats->ended_class[stats_class_of(row->event - block->event)];
    ended->blocks++;
    ended->bytes += block->bytes;
    if (__builtin_expect(block->inherited, 0)) stats->inherited_ends++;
    else count_lifetime(stats, block, row->event, row->time_ns);
    return NULL;
}

// A block that ended without a free seen: nobody's free, and no lifetime.
static const char *drop_block(struct trace_stats *stats, struct block *block, const struct row *row) {
    if (!block->live) return ht_found("expected a slot with a live object", row->slot);
    block->live = 0;
    live_less(stats, block->bytes);
    if (__builtin_expect(stats->sites.count > 0, 0))
        site_stats_ended(&stats->sites, row->slot, block->bytes, stats->peak_number);
    stats->live_objects--;
    stats->freed_bytes += block->bytes;
    stats->drops++;
    if (block->resized) end_resized(stats, row->slot, block);
    return NULL;
}

static const char *take_rare(struct trace_stats *stats, struct block *block, const struct row *row) {
    uint64_t bytes = row->what & COUNTED ? row->size * row->extra : row->size;
    switch (row->what & KINDS_MASK) {
    case RESIZE:
        if (!block->live) return ht_found("expected a slot with a live object", row->slot);
        if (!resize(stats, row->op, row->slot, row->site, block, bytes)) return "";
        note_peak(stats, row->event, row->time_ns);
        return NULL;
    case QUERY: return block->live ? NULL : ht_found("expected a slot with a live object", row->slot);
    case FAILED:
        if (__builtin_mul_overflow(row->size, row->what & COUNTED ? row->extra : 1, &bytes))
            bytes = UINT64_MAX;
        if (bytes > stats->failed_largest_bytes) stats->failed_largest_bytes = bytes;
        if (stats->sites.count) site_stats_called(&stats->sites, row->site);
        return NULL;
    default: return NULL;
    }
}

// Returns what is wrong with the section, NULL, or "" for want of memory.
static const char *take_section(struct trace_stats *stats, const struct ht_events *events,
                                uint64_t *bad_event) {
    enum { AHEAD = 16 };
    struct block *blocks = stats->blocks.items;
    uint64_t pseudo = stats->drops + stats->inherited_objects + stats->controls;
    const char *wrong = NULL;
    if (events->first_event != stats->records)
        return ht_found("expected events numbered without a gap", events->first_event);
    if (events->first_event + events->rows > EVENTS_MAX) return "expected fewer events (stats' limit)";
    for (uint32_t row = 0; row < events->rows; row++) stats->op_calls[events->op[row]]++;
    uint32_t last = events->rows ? events->rows - 1 : 0;
    for (uint32_t i = 0; i < events->rows; i++) {
        __builtin_prefetch(&blocks[events->slot[i + AHEAD < last ? i + AHEAD : last]], 1);
        uint8_t op = events->op[i];
        const struct row row = {.event = events->first_event + i,
                                .time_ns = events->time_ns[i],
                                .size = events->size[i],
                                .extra = events->extra[i],
                                .slot = events->slot[i],
                                .thread = events->thread[i],
                                .site = events->site ? events->site[i] : 0,
                                .op = op,
                                .what = stats->what[op]};
        if (__builtin_expect(row.time_ns >= stats->point_end_ns, 0))
            next_point(stats, row.time_ns, row.event - pseudo);
        struct block *block = &blocks[row.slot];
        unsigned kind = row.what & KINDS_MASK;
        if (kind == MAKE) wrong = make_block(stats, block, &row);
        else if (kind == END && !(row.what & PSEUDO)) wrong = end_block(stats, block, &row);
        else if (kind == END) wrong = drop_block(stats, block, &row);
        else if (kind != NOTHING) wrong = take_rare(stats, block, &row);
        if (__builtin_expect(row.what & PSEUDO, 0)) {
            stats->controls += ht_op_function(op) == HT_CONTROL || ht_op_function(op) == HT_ADVISE;
            pseudo = stats->drops + stats->inherited_objects + stats->controls;
        }
        if (__builtin_expect(wrong != NULL, 0)) {
            *bad_event = row.event;
            return wrong;
        }
    }
    stats->records += events->rows;
    if (events->rows) stats->duration_ns = events->time_ns[last];
    return NULL;
}

static int pass(struct trace_stats *stats, struct ht_trace_reader *reader, const char *path,
                struct ht_error *error) {
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        uint64_t bad_event = 0;
        const char *wrong = "";
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &events, error)) return -1;
        if (slot_table_reach(&stats->blocks, events.slot, events.rows) &&
            (!stats->sites.count || slot_table_reach(&stats->sites.of_blocks, events.slot, events.rows)))
            wrong = take_section(stats, &events, &bad_event);
        if (wrong && *wrong)
            return ht_error_input(error, path, ht_trace_section(reader, i)->offset, "event %" PRIu64 ": %s",
                                  bad_event, wrong);
        if (wrong) return ht_error_memory(error, path, "cannot follow the heap");
    }
    return 0;
}

static void finish(struct trace_stats *stats) {
    stats->events = stats->records - stats->drops - stats->inherited_objects - stats->controls;
    site_stats_finish(&stats->sites, stats->peak_number);
    close_point(stats, stats->points_used++, stats->events);
    stats->others = stats->column[0].allocations > 0;
    for (unsigned i = 0; i < STATS_COLUMNS; i++)
        stats->others = stats->others || stats->pair[0][i].frees || stats->pair[i][0].frees;
    const struct block *blocks = stats->blocks.items;
    for (size_t i = 0; i < stats->chains.room; i++)
        if (map64_has(&stats->chains, i))
            end_chain(stats, stats->chains.entry[i].key, stats->chains.entry[i].value,
                      blocks[stats->chains.entry[i].key].bytes);
    for (unsigned op = 0; op < 256; op++) {
        if (ht_functions[ht_op_function((uint8_t)op)].kind != HT_KIND_REALLOC) continue;
        struct stats_reallocs *reallocs = &stats->reallocs;
        switch (ht_op_variant((uint8_t)op)) {
        case HT_NULL: reallocs->from_null += stats->op_calls[op]; break;
        case HT_FOREIGN: reallocs->foreign += stats->op_calls[op]; break;
        case HT_FAILED: reallocs->failed += stats->op_calls[op]; break;
        case HT_RELEASED: reallocs->released += stats->op_calls[op]; break;
        default: break;
        }
    }
    stats->zero_sized = stats->exact_size[0];
    for (uint64_t size = STATS_EXACT_SIZES; size > 0 && !stats->largest_bytes; size--)
        if (stats->exact_size[size]) stats->largest_bytes = size;
}

// ---- setting up ----

static uint8_t what_of(uint8_t op) {
    const struct ht_op_shape shape = ht_op_shape(op);
    unsigned function = ht_op_function(op);
    uint8_t what = NOTHING;
    if (!shape.valid) return NOTHING;
    if (shape.makes_object) what = MAKE;
    else if (shape.ends_object) what = END;
    else if (shape.query) what = QUERY;
    else if (shape.slot) what = RESIZE;
    else if (ht_op_variant(op) == HT_FAILED) what = FAILED;
    if (function == HT_CALLOC || function == HT_REALLOCARRAY) what |= COUNTED;
    else if (shape.extra && ht_functions[function].kind == HT_KIND_ALLOC) what |= ALIGNED;
    if (ht_functions[function].pseudo) what |= PSEUDO;
    return what;
}

// The threads with most calls get a column each.
static void choose_columns(struct trace_stats *stats) {
    stats->columns = 1;
    for (; stats->columns < STATS_COLUMNS; stats->columns++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < stats->facts.threads_count && i < HT_THREADS_MAX; i++) {
            if (stats->column_of[i]) continue;
            if (best == SIZE_MAX || stats->facts.threads[i].calls > stats->facts.threads[best].calls)
                best = i;
        }
        if (best == SIZE_MAX) break;
        stats->column_of[best] = (uint8_t)stats->columns;
        stats->column[stats->columns].thread = (uint32_t)best;
    }
}

static bool set_up(struct trace_stats *stats, uint32_t points, uint64_t duration_ns) {
    stats->blocks = slot_table_of(sizeof(struct block));
    stats->exact_size = calloc(STATS_EXACT_SIZES + 1, sizeof *stats->exact_size);
    stats->column_of = calloc(HT_THREADS_MAX, 1);  // pages that are never touched cost nothing
    stats->point = calloc(points, sizeof *stats->point);
    if (!stats->exact_size || !stats->column_of || !stats->point || !map64_init(&stats->large_sizes) ||
        !map64_init(&stats->chains) || !map64_init(&stats->chain_first))
        return false;
    stats->points = points;
    stats->point_ns = duration_ns / points + 1;
    stats->point_end_ns = stats->point_ns;
    stats->peak_number = 1;
    for (unsigned op = 0; op < 256; op++) stats->what[op] = what_of((uint8_t)op);
    for (unsigned class = 0, band = 0; class < STATS_CLASSES; class ++) {
        while (stats_class_upper(class) > stats_band_upper[band]) band++;
        stats->band_of[class] = (uint8_t)band;
    }
    choose_columns(stats);
    return true;
}

void trace_stats_free(struct trace_stats *stats) {
    if (!stats) return;
    slot_table_free(&stats->blocks);
    site_stats_free(&stats->sites);
    map64_free(&stats->large_sizes);
    map64_free(&stats->chains);
    map64_free(&stats->chain_first);
    ht_trace_facts_free(&stats->facts);
    free(stats->exact_size);
    free(stats->column_of);
    free(stats->point);
    free(stats);
}

struct trace_stats *trace_stats_count(struct ht_trace_reader *reader, const char *path, uint32_t points,
                                      uint64_t duration_ns, struct ht_error *error) {
    struct trace_stats *stats = calloc(1, sizeof *stats);
    int status = -1;
    if (stats && !ht_trace_facts(reader, &stats->facts, error) &&
        !site_stats_begin(&stats->sites, reader, path, error)) {
        if (set_up(stats, points, duration_ns)) status = pass(stats, reader, path, error);
        else ht_error_memory(error, path, "cannot count");
    } else if (!stats) {
        ht_error_memory(error, path, "cannot count");
    }
    if (!status) {
        // Times of events are coarser than the totals'.
        if (stats->duration_ns < duration_ns) stats->duration_ns = duration_ns;
        finish(stats);
        return stats;
    }
    trace_stats_free(stats);
    return NULL;
}
