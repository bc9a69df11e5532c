// SPDX-License-Identifier: Apache-2.0
// A group's trace as it is replayed: a form for each process, where each one forks and where all of them meet.
#ifndef HEAPTAPE_GROUP_PROGRAM_H
#define HEAPTAPE_GROUP_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "form_builder.h"
#include "group_plan.h"
#include "group_trace.h"
#include "trace_reader.h"
#include "write_model.h"

struct ht_live_slot {
    uint64_t birth, bytes;  // birth: the event that made the block, or gave it its present size
    uint32_t slot;
};

// Called with each moment in turn: those are in the order of the trace. Returns 0, or -1 with error.
typedef int ht_live_visitor(void *context, size_t moment, const struct ht_live_slot *live, size_t count,
                            struct ht_error *error);

enum { HT_GROUP_NO_MOMENT = UINT32_MAX };

// At a meeting the launcher looks at the group. A moment of the recording has two: what was written by then is written at the second.
struct ht_group_meeting {
    uint64_t time_ns;  // of the group
    uint32_t moment;   // of the recording; HT_GROUP_NO_MOMENT: none
    bool written;
};

struct ht_group_program_part {
    struct ht_trace_reader *reader;
    struct ht_built_form built;  // fd -1, or no operation: it makes no call
    struct ht_form_options options;
    struct ht_form_stop *form_stops;
    // This is when, in the time of the group, its parent comes to the fork, which is no later than its own start.
    uint64_t forked_ns;
    struct ht_group_stop *stops;  // as many as the options have
    uint32_t *inherited_slots;    // of its own trace, in order of birth
    uint64_t *inherited_bytes;
    uint64_t parents_offset;                                // in the file of slots
    struct ht_inherited_pages pages[HT_GROUP_MOMENTS_MAX];  // state is NULL: it was not there
    struct ht_group_layout layout;
};

struct ht_group_program {
    struct ht_group_trace *trace;
    uint32_t parts, meetings;
    struct ht_group_program_part *part;
    struct ht_group_meeting *meeting;
    uint64_t end_ns;  // of the group
    int slots_fd;
    uint64_t slots_bytes;
    struct ht_write_model *model;  // NULL: no moment is known, or nothing was inherited
};

// memory_bytes: what all forms together may take. Returns 0, or -1 with error; to be freed in any case.
int ht_group_program_load(struct ht_group_trace *trace, uint64_t memory_bytes, uint64_t seed,
                          struct ht_group_program *program, struct ht_error *error);
// The process with the most slots among those that the launcher starts: what it shares with them has room for all.
const struct ht_built_form *ht_group_program_largest(const struct ht_group_program *program);
// How many its table has: those of its calls, and of what it inherited.
uint32_t ht_group_program_slots(const struct ht_group_program_part *part, uint64_t inherited);
void ht_group_program_free(struct ht_group_program *program);

#endif
