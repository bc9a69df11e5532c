// SPDX-License-Identifier: Apache-2.0
// What led to the blocks with which a slice begins: all calls before it, as a trace within the slice.
#ifndef HEAPTAPE_SLICE_PRELUDE_H
#define HEAPTAPE_SLICE_PRELUDE_H

#include <jansson.h>

#include "trace_slice.h"

enum slice_prelude {
    SLICE_PRELUDE_NOTHING,  // the slice begins where the trace does
    SLICE_PRELUDE_SAME,     // likewise, and the trace has a prelude
    SLICE_PRELUDE_WHOLE,    // all calls before it
    SLICE_PRELUDE_PART,  // the same, but the trace begins with blocks of which it does not know what led to them
    SLICE_PRELUDE_NONE  // not asked for, or not to be had
};

// Which one a slice of this trace gets. totals: the trace's.
enum slice_prelude slice_prelude_of(const struct ht_trace_reader *reader, const json_t *totals,
                                    const struct slice_request *request, bool fresh);

// What the slice's context says of it; NULL: nothing.
const char *slice_prelude_word(enum slice_prelude prelude);

// Puts it into the slice, whose events have been written. Returns 0 or -1 with error.
int slice_prelude_put(struct ht_trace_reader *reader, const json_t *context, enum slice_prelude prelude,
                      const struct slice_request *request, const struct slice_result *slice,
                      struct ht_trace_writer *writer, struct ht_error *error);

#endif
