// SPDX-License-Identifier: Apache-2.0
// The recorded program's memory along the trace: its heap; and what it held beside it, its own mappings, stacks and
// data. Added to the heap under another allocator these give the process's anonymous memory, as ps and a container's
// limit count it.
#ifndef HEAPTAPE_RECORDED_OWN_H
#define HEAPTAPE_RECORDED_OWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "built_form.h"
#include "trace_reader.h"

struct ht_own_memory {
    uint64_t *time_ns, *bytes, *heap_bytes;
    size_t count;  // 0: not known
};

// Returns false without memory.
bool ht_own_memory_take(const struct ht_trace_facts *facts, struct ht_own_memory *own);
void ht_own_memory_free(struct ht_own_memory *own);

// Its bytes where RSS is read: a value for each of the form's samples, between two of the recorder's by time. NULL
// where they are not known, or without memory.
uint64_t *ht_own_memory_at(const struct ht_own_memory *own, const struct ht_built_form *built);

#endif
