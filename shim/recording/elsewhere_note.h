// SPDX-License-Identifier: Apache-2.0
#ifndef HEAPTAPE_ELSEWHERE_NOTE_H
#define HEAPTAPE_ELSEWHERE_NOTE_H

#include "raw_layout.h"

// How many objects the process begins with.
__attribute__((visibility("hidden"))) void elsewhere_begin(void);
// Names, in the header's context, what may have calls that never come to the recorder: as `own_malloc` libraries that were
// opened later and have a malloc, which the program finds by their handle; as `other_namespaces` those that were opened by
// dlmopen, whose C library is another one. Once for each.
__attribute__((visibility("hidden"))) void elsewhere_note(struct ht_raw_header *header);

#endif
