// SPDX-License-Identifier: Apache-2.0
// The JSON texts inside a trace (context, totals), and info's view of them.
#ifndef HEAPTAPE_TRACE_JSON_H
#define HEAPTAPE_TRACE_JSON_H

#include <jansson.h>

#include "merge.h"
#include "raw_reader.h"
#include "trace_facts.h"

// The raw log's context and header as the trace's context object.
json_t *trace_json_context(const struct ht_raw_log *log);
json_t *trace_json_totals(const struct merge_totals *totals, const struct ht_raw_log *log);
// The same for a trace that was imported: what only our own recorder knows is null, and `skipped` counts what
// of the input was passed over.
json_t *trace_json_import_totals(const struct merge_totals *totals, uint64_t skipped);
// Any bytes, as the UTF-8 that JSON wants.
json_t *trace_json_string(const char *text);

// Read them, an empty object where the trace has none. NULL with error where they are damaged.
json_t *trace_json_read_context(struct ht_trace_reader *reader, struct ht_error *error);
json_t *trace_json_read_totals(struct ht_trace_reader *reader, struct ht_error *error);

// Write them; the object is taken.
void trace_json_put_context(struct ht_trace_writer *writer, json_t *context);
int trace_json_finish(struct ht_trace_writer *writer, const struct ht_thread *threads, size_t threads_count,
                      json_t *totals, uint64_t *file_bytes, struct ht_error *error);

// What the totals, or info's view of them, say of what was lost because the log was damaged: how many calls, and where. False
// if it was not.
enum { TRACE_DAMAGE_BYTES = 512 };
bool trace_json_damage(const json_t *totals, char words[TRACE_DAMAGE_BYTES]);

// What the totals, or info's view of them, say of the memory that is not from malloc.
struct ht_heap_share trace_json_heap_share(const json_t *totals);
// Instead of one figure, what the heap's peak can have been.
void trace_json_set_heap_range(json_t *totals, uint64_t low_bytes, uint64_t high_bytes);
// True where the heap's peak is not known better than these two say.
bool trace_json_heap_range(const json_t *totals, uint64_t *low_bytes, uint64_t *high_bytes);

// Was the recorded process forked from another one, so that it shares pages with it? A slice too begins with
// blocks of before. (That a process forked children is in no trace.)
bool trace_json_forked(const json_t *context, const json_t *totals);

// Is it a slice by threads, or a slice of one? There blocks end by *drop* without anything being wrong.
// Returns 0, or -1 with error for a damaged trace.
int trace_json_drops_expected(struct ht_trace_reader *reader, bool *expected, struct ht_error *error);
// Is it a slice? Then what it inherits is from before that.
int trace_json_sliced(struct ht_trace_reader *reader, bool *sliced, struct ht_error *error);
// What a slice has of the calls that led to its first blocks: "whole", "part" (of a trace that itself begins with blocks) or "none";
// NULL: there is nothing to have.
const char *trace_json_prelude(const json_t *context, const json_t *totals);

// What `info --json` prints. Returns NULL with error for a damaged trace.
json_t *trace_json_info(struct ht_trace_reader *reader, struct ht_error *error);

// ---- which of a trace's totals come from what: for those that copy, import or extend a trace ----

enum totals_kind {
    TOTALS_COUNTED = 1,   // from the trace's events
    TOTALS_DROPPED = 2,   // of calls that are no events
    TOTALS_RECORDED = 4,  // measured while the program ran
};

// kinds: of enum totals_kind, ORed. Of those that the totals have.
void totals_make_unknown(json_t *totals, unsigned kinds);

// Puts those of the other totals in place of these.
void totals_put_counted(json_t *totals, const json_t *other);

#endif
