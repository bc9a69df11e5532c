// SPDX-License-Identifier: Apache-2.0
// Where the importers' calls go: in the order of the file, addresses or ids become slots, threads get
// numbers, and the trace's events are written, by the same model of the heap as for our own logs.
#ifndef HEAPTAPE_IMPORT_SINK_H
#define HEAPTAPE_IMPORT_SINK_H

#include <jansson.h>

#include "heap_model.h"

enum { IMPORT_PAGE_BYTES = 4096 };

// One call of a foreign trace.
struct import_call {
    enum ht_function function;
    uint64_t thread;          // as the file names it; 0 where it names none
    uint64_t address;         // what an allocation returned (0: it failed) or a free was given (0: NULL)
    uint64_t old_address;     // a realloc's operand
    uint64_t size, extra;     // as in the trace: calloc's count or the alignment is the extra
    bool timed;               // time_ns is known
    bool failed;              // by the file's own word, whatever the address is
    uint32_t site;            // of an allocation, as import_sites.h numbers it; 0: unknown
    bool resident_given;      // resident_bytes is known
    uint64_t time_ns;         // of an allocation's end, a free's start
    uint64_t resident_bytes;  // of the block that this free or realloc ends
};

struct import_sink {
    struct heap_model heap;
    struct ht_trace_writer *writer;
    json_t *context;   // completed and written with the first call
    const char *time;  // what it says of the times; NULL: whether the calls have any
    uint32_t time_unit_ns;
    bool begun, timed;
    uint64_t first_ns;      // where timed
    uint64_t nominal_ns;    // where not: of the next call
    struct map64 threads;   // the file's id plus one -> our number, while the thread lives
    uint64_t thread_named;  // the last look-up: id plus one, and what was found
    uint32_t thread_found;
    bool no_memory;  // after which nothing is taken any more
};

bool import_sink_init(struct import_sink *sink, struct ht_trace_writer *writer, uint32_t time_unit_ns,
                      json_t *context);
// Leaves heap.threads to the caller.
void import_sink_free(struct import_sink *sink);

// Takes one call. Returns NULL, or what was expected instead of it: then nothing was taken.
const char *import_sink_call(struct import_sink *sink, const struct import_call *call);

// The thread is no more: the same id is another thread from now on.
void import_sink_thread_ends(struct import_sink *sink, uint64_t thread, bool timed, uint64_t time_ns);

#endif
