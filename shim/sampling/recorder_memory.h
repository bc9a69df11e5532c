// SPDX-License-Identifier: Apache-2.0
// The recorder's own memory for call sites, which grows with the program's variety: samples leave it out, so that a recording
// with call sites says the same of the program as one without.
#ifndef HEAPTAPE_RECORDER_MEMORY_H
#define HEAPTAPE_RECORDER_MEMORY_H

#include "process_memory.h"
#include "state.h"

// is_real: all of it is resident. Else its pages are counted by recorder_memory_count.
HIDDEN void recorder_memory_mapped(uintptr_t start, size_t bytes, bool is_real);
// The pages have gone; with them the addresses, or not.
HIDDEN void recorder_memory_released(uintptr_t start, size_t bytes, bool unmapped);
// Is there any that is not known to be resident?
HIDDEN bool recorder_memory_is_counted(void);
// Counts that, by one thread at a time.
HIDDEN void recorder_memory_count(struct page_counter *pages);
// Resident bytes.
HIDDEN uint64_t recorder_memory_bytes(void);

#endif
