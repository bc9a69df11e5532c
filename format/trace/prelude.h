// SPDX-License-Identifier: Apache-2.0
// What led to the heap with which a slice begins: a whole trace, in sections of its own (docs/reference/trace-format.md).
#ifndef HEAPTAPE_PRELUDE_H
#define HEAPTAPE_PRELUDE_H

#include "trace_reader.h"
#include "trace_writer.h"

struct ht_prelude {
    struct ht_trace_reader *reader;
    uint32_t *number;  // of each of the slice's threads: 1 and its number in the prelude, or 0
    size_t threads;
    int fd;
};

bool ht_prelude_is_there(const struct ht_trace_reader *reader);

// Keeps the prelude in memory, compressed as it is. Returns 0, or -1 with error; without a prelude prelude->reader is NULL.
int ht_prelude_open(struct ht_trace_reader *reader, struct ht_prelude *prelude, struct ht_error *error);
void ht_prelude_close(struct ht_prelude *prelude);

// A trace that is to become a prelude, in memory: what is written to it is then put into the other trace, or given up. NULL with error.
struct ht_trace_writer *ht_prelude_create(uint32_t time_unit_ns, int *fd, struct ht_error *error);
int ht_prelude_put(struct ht_trace_writer *writer, int fd, const uint64_t *number, size_t threads,
                   struct ht_error *error);

// The same prelude for another trace that begins with the same blocks and has the same threads. Returns 0, or -1 with error.
int ht_prelude_copy(struct ht_trace_reader *reader, struct ht_trace_writer *writer, struct ht_error *error);

#endif
