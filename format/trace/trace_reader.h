// SPDX-License-Identifier: Apache-2.0
// Reads trace.bin: section by section, checked, with array operations only (docs/reference/trace-format.md).
#ifndef HEAPTAPE_TRACE_READER_H
#define HEAPTAPE_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "ops.h"
#include "trace_layout.h"

struct ht_trace_reader;
struct ht_trace_facts;  // trace_facts.h

// One decoded events section: dense arrays of `rows` values, 0 where an event has no such value.
struct ht_events {
    uint32_t rows;
    uint64_t first_event;
    uint8_t *op;
    uint32_t *thread;
    uint64_t *time_ns;
    uint32_t *slot;
    uint64_t *size;
    uint64_t *extra;
    uint32_t *site;  // call sites, 0 where unknown; NULL: none is known
};

// Opens and checks header, footer and index. A file without a footer opens with truncated set.
// Returns NULL and fills error for anything that is not a trace.
struct ht_trace_reader *ht_trace_open(const char *path, struct ht_error *error);
// The same, but that it may be the trace of a group: no more can be read of that than its sections (group_trace.h).
struct ht_trace_reader *ht_trace_open_any(const char *path, struct ht_error *error);
// Of an open file, which stays the caller's. name: for messages.
struct ht_trace_reader *ht_trace_open_in(int fd, const char *name, struct ht_error *error);
void ht_trace_close(struct ht_trace_reader *reader);

bool ht_trace_truncated(const struct ht_trace_reader *reader);
// What a verb says of a truncated file once it has shown what is whole.
void ht_trace_report_truncated(const struct ht_trace_reader *reader, struct ht_error *error);
// What a verb says of the first section of that kind, which is sound as a section. Returns -1.
int ht_trace_bad_section(const struct ht_trace_reader *reader, enum ht_section_kind kind,
                         struct ht_error *error, const char *expected);
// The same of the i-th section.
int ht_trace_bad_place(const struct ht_trace_reader *reader, size_t i, struct ht_error *error,
                       const char *expected);
const char *ht_trace_path(const struct ht_trace_reader *reader);
// Where the whole sections end: the file's size unless truncated.
uint64_t ht_trace_valid_bytes(const struct ht_trace_reader *reader);
uint64_t ht_trace_file_bytes(const struct ht_trace_reader *reader);
uint32_t ht_trace_time_unit_ns(const struct ht_trace_reader *reader);
// What its header announces, of enum ht_trace_feature.
uint32_t ht_trace_features(const struct ht_trace_reader *reader);
// Rows of all events sections.
uint64_t ht_trace_records(const struct ht_trace_reader *reader);
// The sections (whole ones), in file order.
size_t ht_trace_sections(const struct ht_trace_reader *reader);
const struct ht_section_place *ht_trace_section(const struct ht_trace_reader *reader, size_t i);

// JSON texts, zero-terminated, to be freed by the caller. NULL and an error if damaged; totals of a
// truncated file are absent: NULL with error->status 0.
char *ht_trace_context_json(struct ht_trace_reader *reader, struct ht_error *error);
char *ht_trace_totals_json(struct ht_trace_reader *reader, struct ht_error *error);
// The modules of call sites (site_table.h); NULL with error->status 0 in a trace without.
char *ht_trace_modules_json(struct ht_trace_reader *reader, struct ht_error *error);

// Decodes the i-th section, which must be of kind events. The arrays belong to the reader and last until the
// next call. Returns 0, or -1 with error.
int ht_trace_events(struct ht_trace_reader *reader, size_t i, struct ht_events *events,
                    struct ht_error *error);

// The i-th section as it is stored, until the next call. Returns 0, or -1 with error.
int ht_trace_stored(struct ht_trace_reader *reader, size_t i, const struct ht_section_header **header,
                    const void **payload, struct ht_error *error);

// A trace that no file has: made from another one while it is read. Its sections are all of kind events; call sites are those
// of the other trace, and so is what a reader of files alone can answer (ht_trace_stored, ht_trace_copy: not of this one).
struct ht_trace_made {
    void *context;
    const struct ht_section_place *places;  // offsets as in the other trace, for messages
    size_t places_count;
    int (*events)(void *context, size_t i, struct ht_events *events, struct ht_error *error);
    int (*facts)(void *context, struct ht_trace_facts *facts, struct ht_error *error);
    char *(*context_json)(void *context, struct ht_error *error);
    char *(*totals_json)(void *context, struct ht_error *error);
    void (*close)(void *context);
};

// How the trace is made; NULL: a file has it.
const struct ht_trace_made *ht_trace_made(const struct ht_trace_reader *reader);

// The one that reads a file: that from which a made one is made, or the reader itself.
struct ht_trace_reader *ht_trace_of_file(struct ht_trace_reader *reader);

// Takes the other reader, which is closed with this one. NULL for want of memory: then it is as it was.
struct ht_trace_reader *ht_trace_open_made(struct ht_trace_reader *of, const struct ht_trace_made *made,
                                           struct ht_error *error);

// How large the block is that an event makes.
static inline uint64_t ht_event_bytes(const struct ht_events *events, uint32_t row) {
    unsigned function = ht_op_function(events->op[row]);
    bool counted = function == HT_CALLOC || function == HT_REALLOCARRAY;
    return counted ? events->size[row] * events->extra[row] : events->size[row];
}

#endif
