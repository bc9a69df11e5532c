// SPDX-License-Identifier: Apache-2.0
// At which event a stretch begins, and at which it ends: where as much is live as at its beginning, so that one repetition
// can follow another.
#ifndef HEAPTAPE_STRETCH_ENDS_H
#define HEAPTAPE_STRETCH_ENDS_H

#include "steady_stretch.h"
#include "trace_reader.h"

struct stretch_ends {
    uint64_t from_event, end_event, from_ns, until_ns;
    uint64_t live_bytes;  // at the beginning
    uint32_t slots;       // the highest one before the end
};

// Returns 0, or -1 with error.
int stretch_ends_find(struct ht_trace_reader *reader, const char *path, const struct steady_stretch *stretch,
                      struct stretch_ends *ends, struct ht_error *error);

#endif
