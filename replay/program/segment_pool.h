// SPDX-License-Identifier: Apache-2.0
// The shared memory of a form that is streamed: a header, and a pool of segments of one size.
#ifndef HEAPTAPE_SEGMENT_POOL_H
#define HEAPTAPE_SEGMENT_POOL_H

#include <stdint.h>

struct ht_form_state;

// Makes the pool, as large as there is memory for, and puts it into form->built; the header that is there
// becomes one of the pool, and stays the launcher's own. Returns 0, or -1 with error: not even the least pool
// that keeps every thread going (replay_feed.c) can be had.
int ht_pool_prepare(struct ht_form_state *form);

// Bytes of a segment of the pool, and of what comes before the first.
uint64_t ht_pool_segment_bytes(const struct ht_form_state *form);
uint64_t ht_pool_header_bytes(const struct ht_form_state *form);

#endif
