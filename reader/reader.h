// SPDX-License-Identifier: Apache-2.0
// libheaptape: reads the traces that `heaptape convert` writes. Link with -lheaptape (pkg-config heaptape).
//
//     struct heaptape_reader *reader = heaptape_open("app.bin");
//     const struct heaptape_event *event;
//     while ((event = heaptape_next(reader))) ...
//     if (heaptape_error(reader)) fprintf(stderr, "%s\n", heaptape_error(reader));
//     heaptape_close(reader);
//
// The library prints nothing and never ends the program. A reader belongs to one thread at a time; two readers share
// nothing. Memory: about 10 MB for each reader, whatever the length of the trace.
#ifndef HEAPTAPE_READER_H
#define HEAPTAPE_READER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct heaptape_reader;

// What an event does to the object in its slot.
enum heaptape_effect {
    // A call that failed, free(NULL), a free of a block from before the recording: none has a slot. Or
    // malloc_usable_size, whose slot is that of the object that was asked for its size. Or an event of control or madvise, which
    // are no calls of the family: their operands are in size and alignment, as docs/reference/trace-format.md has them.
    HEAPTAPE_NONE,
    HEAPTAPE_MAKES,    // a new object, of `size` bytes
    HEAPTAPE_RESIZES,  // the object has `size` bytes from now on
    HEAPTAPE_ENDS      // the object is freed, and its slot with it
};

// The columns of docs/reference/trace-format.md, "Ops".
enum heaptape_variant {
    HEAPTAPE_PLAIN,
    HEAPTAPE_NULL,      // free(NULL), realloc(NULL, n)
    HEAPTAPE_FAILED,    // returned NULL, nothing changed
    HEAPTAPE_RELEASED,  // realloc(p, 0) that freed the block and returned NULL
    HEAPTAPE_FOREIGN    // the block was allocated before the recording began
};

// One call of the malloc family. Later versions may add members at the end.
struct heaptape_event {
    uint64_t number;     // from 0, in the order of the trace
    uint64_t time_ns;    // since the recording began; never decreases
    uint64_t size;       // bytes, as the caller gave them; of calloc and reallocarray those of one element
    uint64_t count;      // of calloc and reallocarray the elements, of other events with a size 1
    uint64_t alignment;  // of the functions that take one. What an event does not have is 0
    uint32_t slot;       // names the object from the event that makes it to the event that ends it; 0: none
    uint32_t thread;     // from 0, in the order of first events
    uint8_t function;    // docs/reference/trace-format.md, "Ops"; heaptape_function_name() has its name
    uint8_t variant;     // enum heaptape_variant
    uint8_t effect;      // enum heaptape_effect
    uint32_t site;       // the call site, for heaptape_frames(); 0: not recorded
};

// Opens a trace. Where that fails, heaptape_error() says why, and heaptape_next() has no event. NULL where there is not
// enough memory; every function below accepts NULL.
struct heaptape_reader *heaptape_open(const char *path);
void heaptape_close(struct heaptape_reader *reader);

// The next event, valid until the next call with this reader; NULL after the last one and where reading failed.
const struct heaptape_event *heaptape_next(struct heaptape_reader *reader);

// What failed, as one line without a line break: "FILE: offset N: ... expected". NULL: nothing did. A trace that was cut
// short is read as far as it is whole; that it is cut short is an error after its last event.
const char *heaptape_error(const struct heaptape_reader *reader);

// A function on the stack of a call site.
struct heaptape_frame {
    const char *function, *file;  // NULL where unknown; they last as long as the reader
    uint64_t offset;              // of the return address, in the module's file as its symbols have it
    uint32_t module;              // from 1, in heaptape_modules(); 0: none, and offset is an address
    uint32_t line;                // 0: unknown
    uint8_t inlined;              // into the function of the next frame
};

// Writes up to `room` frames of a call site, the innermost first. Returns how many there are: 0 where the site is not known, and
// where reading failed.
size_t heaptape_frames(struct heaptape_reader *reader, uint32_t site, struct heaptape_frame *frames,
                       size_t room);
// How many call sites there are: they have the numbers from 1 on.
uint32_t heaptape_sites(struct heaptape_reader *reader);
// The modules that frames are in, as a JSON text with their paths and build ids that lasts as long as the reader. NULL where the
// trace has none, and where reading failed.
const char *heaptape_modules(struct heaptape_reader *reader);

// The circumstances of the recording (command, allocator, machine) and the totals of the trace, as JSON texts that last
// as long as the reader; docs/reference/trace-format.md has their keys. NULL where the trace has none, and where reading failed.
const char *heaptape_context(struct heaptape_reader *reader);
const char *heaptape_totals(struct heaptape_reader *reader);

// Such as "malloc"; NULL for a number that no function has.
const char *heaptape_function_name(unsigned function);

#ifdef __cplusplus
}
#endif

#endif
