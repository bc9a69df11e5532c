// SPDX-License-Identifier: Apache-2.0
// A trace that holds a tree of processes: each one's own trace, where it was forked, and what is known of the pages that it
// inherited (docs/reference/group-format.md, "The trace of a group").
#ifndef HEAPTAPE_GROUP_TRACE_H
#define HEAPTAPE_GROUP_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "group_facts.h"
#include "trace_reader.h"

struct ht_group_trace;

// NULL with error; with error->status 0 if the file is a trace of a single process.
struct ht_group_trace *ht_group_open(const char *path, struct ht_error *error);
void ht_group_close(struct ht_group_trace *group);

uint32_t ht_group_processes(const struct ht_group_trace *group);
const struct ht_group_process *ht_group_process(const struct ht_group_trace *group, uint32_t process);
uint32_t ht_group_moments(const struct ht_group_trace *group);
const struct ht_group_moment *ht_group_moment(const struct ht_group_trace *group, uint32_t moment);
const struct ht_group_presence *ht_group_presence(const struct ht_group_trace *group, uint32_t process,
                                                  uint32_t moment);
uint32_t ht_group_page_bytes(const struct ht_group_trace *group);
uint64_t ht_group_file_bytes(const struct ht_group_trace *group);
// The group's context as text, which lasts as long as the group.
const char *ht_group_context_json(const struct ht_group_trace *group);

// The process's own trace, which lasts no longer than the group. NULL with error.
struct ht_trace_reader *ht_group_member_open(struct ht_group_trace *group, uint32_t process,
                                             struct ht_error *error);

// The process has a parent. Returns 0, or -1 with error; to be freed.
int ht_group_layout_read(struct ht_group_trace *group, uint32_t process, struct ht_group_layout *layout,
                         struct ht_error *error);
void ht_group_layout_free(struct ht_group_layout *layout);
// A byte for each page number of its layout; NULL with error, or with error->status 0 where the process is not in that
// snapshot. To be freed.
uint8_t *ht_group_page_states(struct ht_group_trace *group, uint32_t process, uint32_t moment,
                              struct ht_error *error);

#endif
