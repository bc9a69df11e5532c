// SPDX-License-Identifier: Apache-2.0
// When a program calls: whether a trace begins or ends with a long time of hardly any calls, such as a server's before and after
// its load, and how long the program runs between two calls.
#ifndef HEAPTAPE_CALL_TIMES_H
#define HEAPTAPE_CALL_TIMES_H

#include "trace_reader.h"

enum { HT_IDLE_ENDS_BYTES = 4500 };

// True if one of its ends is longer than a second and than a tenth of the time until end_ns, and has at most a hundredth of
// the calls. words: a sentence, with the command that leaves such ends out. Decodes two sections.
bool ht_idle_ends(struct ht_trace_reader *reader, const char *path, uint64_t end_ns,
                  char words[HT_IDLE_ENDS_BYTES]);

// The median time from one call of a thread to its next, from the trace's times: malloc's own time and the recorder's are
// in it. 0 where no thread calls twice. Returns 0, or -1 with an error.
int ht_median_gap_ns(struct ht_trace_reader *reader, double *gap_ns, struct ht_error *error);

#endif
