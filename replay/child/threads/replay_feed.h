// SPDX-License-Identifier: Apache-2.0
// The words of a stream, segment by segment, as the engine asks for them.
#ifndef HEAPTAPE_REPLAY_FEED_H
#define HEAPTAPE_REPLAY_FEED_H

#include "replay_lane.h"

// The first words of the lane's stream, and those that follow once the lane has come to the end of a segment.
// NULL: there are none. Where the form is streamed this waits for them.
const uint64_t *ht_feed_first(struct ht_lane *lane);
const uint64_t *ht_feed_next(struct ht_lane *lane);

// Reads one byte of every page of a held stream, so that the page tables are there before time is taken.
void ht_feed_fault_in(const struct ht_form *form, const struct ht_stream *stream);

#endif
