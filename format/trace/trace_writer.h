// SPDX-License-Identifier: Apache-2.0
// Writes trace.bin (docs/reference/trace-format.md) beside its final name and puts it in place when it is
// complete.
#ifndef HEAPTAPE_TRACE_WRITER_H
#define HEAPTAPE_TRACE_WRITER_H

#include <stdint.h>

#include "error.h"
#include "ops.h"
#include "site_table.h"
#include "trace_facts.h"
#include "trace_layout.h"

struct ht_trace_writer;

// level: zstd's, 1 to 19. Returns NULL with error if the file cannot be made.
struct ht_trace_writer *ht_trace_create(const char *path, uint32_t time_unit_ns, int level,
                                        struct ht_error *error);

// The same into an open file, which stays the caller's. name: for messages.
struct ht_trace_writer *ht_trace_create_in(int fd, const char *name, uint32_t time_unit_ns, int level,
                                           struct ht_error *error);

// context_json: an object of the run's circumstances. To be called first.
int ht_trace_put_context(struct ht_trace_writer *writer, const char *context_json);

// One event or pseudo event; times must not decrease. Values that the op does not have are ignored. own_slot:
// the object was allocated by this same thread (a hint that makes the file smaller, never wrong). Errors are
// kept and reported by ht_trace_finish.
void ht_trace_put_event(struct ht_trace_writer *writer, uint8_t op, uint32_t thread, uint64_t time_ns,
                        uint32_t slot, bool own_slot, uint64_t size, uint64_t extra);
// The call site of the next event, if that allocates; 0: unknown. Without this call it is.
void ht_trace_put_site(struct ht_trace_writer *writer, uint32_t site);
void ht_trace_put_sample(struct ht_trace_writer *writer, const struct ht_sample *sample);
void ht_trace_put_residency(struct ht_trace_writer *writer, const struct ht_residency *residency);
void ht_trace_put_residency_step(struct ht_trace_writer *writer, const struct ht_residency_step *step);

// What the numbers of call sites mean, once, before the end.
void ht_trace_put_site_table(struct ht_trace_writer *writer, const struct ht_site_table *table);

// A section of columns of any other kind, after the last event. first, second: of the section's header.
struct ht_put_column {
    uint8_t id;
    size_t count;
    const uint64_t *values;  // NULL: bytes
    const uint8_t *bytes;
};
void ht_trace_put_columns(struct ht_trace_writer *writer, enum ht_section_kind kind, uint32_t rows,
                          uint64_t first, uint64_t second, const struct ht_put_column *column,
                          unsigned columns);
// A section as another trace has it, after the last event.
void ht_trace_put_stored(struct ht_trace_writer *writer, const struct ht_section_header *header,
                         const void *payload);

// Events and pseudo events put so far: the number of the next one.
uint64_t ht_trace_next_event(const struct ht_trace_writer *writer);

// Bytes written so far, of whole sections.
uint64_t ht_trace_bytes(const struct ht_trace_writer *writer);

// Has a write failed? Then nothing more need be put.
bool ht_trace_failed(const struct ht_trace_writer *writer);

// Writes threads, totals, index and footer, syncs, renames. Frees the writer in every case.
// *file_bytes (may be NULL): the finished file's size. Returns 0 or -1 with error.
int ht_trace_finish(struct ht_trace_writer *writer, const struct ht_thread *threads, size_t threads_count,
                    const char *totals_json, uint64_t *file_bytes, struct ht_error *error);

// A file that holds other traces (group_writer.h): sections of columns, and its context, which may come last.
struct ht_trace_writer *ht_trace_create_group(const char *path, uint32_t time_unit_ns, int level,
                                              struct ht_error *error);
int ht_trace_finish_group(struct ht_trace_writer *writer, uint64_t *file_bytes, struct ht_error *error);

// A copy of a trace, which has call sites, with another table of them: all other sections as they are stored. Returns 0, or -1 with error;
// the file appears when it is complete.
int ht_trace_copy(struct ht_trace_reader *reader, const char *path, const struct ht_site_table *table,
                  uint64_t *file_bytes, struct ht_error *error);

// Gives up: removes the partial file (a lasting one stays), frees the writer.
void ht_trace_abandon(struct ht_trace_writer *writer);

// The file that becomes the trace at the end; NULL where the output is no regular file.
const char *ht_trace_partial_path(const struct ht_trace_writer *writer);

// A trace that takes long to write: its partial file is PATH.partial, stays if it is given up, and can be
// resumed from a checkpoint by a later process. One process at a time: another gets an error.
struct ht_trace_position {
    uint64_t offset;  // whole sections end there
    uint64_t next_event;
};
struct ht_trace_writer *ht_trace_create_lasting(const char *path, uint32_t time_unit_ns, int level,
                                                struct ht_error *error);
struct ht_trace_writer *ht_trace_resume(const char *path, uint32_t time_unit_ns, int level,
                                        const struct ht_trace_position *position, struct ht_error *error);
// Writes all that was put as whole sections, and syncs them. Returns 0 or -1 with error.
int ht_trace_checkpoint(struct ht_trace_writer *writer, struct ht_trace_position *position,
                        struct ht_error *error);

#endif
