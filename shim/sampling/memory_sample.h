// SPDX-License-Identifier: Apache-2.0
// Samples of the program's memory between its calls. The folder has a word for each thing
// that is measured:
//   memory_sample   RssAnon along the run: a record, when enough was allocated or time has passed
//   own_memory      the part of it that malloc did not give: counted with a sample
//   residency       pages of one large block that are resident: at its birth, with samples, at its end
//   large_blocks    the table of the blocks whose residency is measured
//   freed_probe     is a freed block in the caches? A count in the header, now and then before a free
//   process_memory  the kernel's files that all of them read
#ifndef HEAPTAPE_MEMORY_SAMPLE_H
#define HEAPTAPE_MEMORY_SAMPLE_H

#include "state.h"

HIDDEN void memory_sample(struct thread_state *t, uint64_t stamp, bool final);
// A block is about to go of which so much was touched since it was allocated: no sample may have seen it.
HIDDEN void memory_sample_before_free(struct thread_state *t, uint64_t touched_bytes);

#endif
