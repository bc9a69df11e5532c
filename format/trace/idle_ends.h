// SPDX-License-Identifier: Apache-2.0
// Whether a trace begins or ends with a long time of hardly any calls, such as a server's before and after its load.
#ifndef HEAPTAPE_IDLE_ENDS_H
#define HEAPTAPE_IDLE_ENDS_H

#include "trace_reader.h"

enum { HT_IDLE_ENDS_BYTES = 4500 };

// True if one of its ends is longer than a second and than a tenth of the time until end_ns, and has at most a hundredth of
// the calls. words: a sentence, with the command that leaves such ends out. Decodes two sections.
bool ht_idle_ends(struct ht_trace_reader *reader, const char *path, uint64_t end_ns,
                  char words[HT_IDLE_ENDS_BYTES]);

#endif
