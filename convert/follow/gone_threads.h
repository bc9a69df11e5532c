// SPDX-License-Identifier: Apache-2.0
// Streams whose threads are no more: each leaves a chunk that nobody closes, and a program that starts
// threads for days would fill the disk with them.
#ifndef HEAPTAPE_GONE_THREADS_H
#define HEAPTAPE_GONE_THREADS_H

#include "live_streams.h"

// Notes which threads are gone, if the log's process can be read.
void gone_threads_note(struct live_streams *live);

// The poll behind us found no more in the stream. True once that is certain to be so for ever.
bool gone_threads_confirm(struct live_streams *live, uint32_t number);

#endif
