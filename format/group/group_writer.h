// SPDX-License-Identifier: Apache-2.0
// Writes the trace of a group (group_trace.h): each process's trace, layout and page states as they are made, what is known of
// all at the end.
#ifndef HEAPTAPE_GROUP_WRITER_H
#define HEAPTAPE_GROUP_WRITER_H

#include <jansson.h>

#include "group_content.h"
#include "trace_writer.h"

// NULL with error. The rest is as of other traces: ht_trace_abandon, ht_trace_failed.
struct ht_trace_writer *ht_group_create(const char *path, uint32_t time_unit_ns, int level,
                                        struct ht_error *error);

// A whole trace, which lies in the file from its beginning to its end. Returns 0, or -1 with error.
int ht_group_put_member(struct ht_trace_writer *writer, uint32_t process, int fd, struct ht_error *error);
// Returns 0, or -1 for want of memory.
int ht_group_put_layout(struct ht_trace_writer *writer, uint32_t process,
                        const struct ht_group_layout *layout);
void ht_group_put_page_states(struct ht_trace_writer *writer, uint32_t process, uint32_t moment,
                              const uint8_t *states, size_t count);

// The context becomes the trace's and is taken: it gets its key `group`. Frees the writer in every case. Returns 0, or -1 with
// error.
int ht_group_finish(struct ht_trace_writer *writer, json_t *context, const struct ht_group_content *content,
                    uint64_t *file_bytes, struct ht_error *error);

#endif
