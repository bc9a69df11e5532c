// SPDX-License-Identifier: Apache-2.0
// A form that is streamed: the trace is decoded once more beside each child, into a pool of segments that
// both map, by a thread of the launcher that runs ahead as far as the pool reaches.
#ifndef HEAPTAPE_FORM_STREAMED_H
#define HEAPTAPE_FORM_STREAMED_H

#include <stdbool.h>
#include <stdint.h>

#include "error.h"

// The shared memory of a form that is streamed: a header, and a pool of segments of one size.
struct ht_form_state;

// Makes the pool, as large as there is memory for, and puts it into form->built; the header that is there
// becomes one of the pool, and stays the launcher's own. Returns 0, or -1 with error: not even the least pool
// that keeps every thread going (replay_feed.c) can be had.
int ht_pool_prepare(struct ht_form_state *form);

struct ht_built_form;
struct ht_decoder;

// Starts to decode for a child in which each segment is read by so many lanes. Returns NULL with error where
// that fails. built must be streamed. alternate: the decoding waits until the pool has been replayed and then
// fills it while the replay waits, so that neither takes caches or half of a core from the other; else it
// runs along.
struct ht_decoder *ht_decoder_start(const struct ht_built_form *built, uint32_t readers, bool alternate,
                                    struct ht_error *error);

// The child has ended: stops decoding, if it has not come to its end. Returns 0, or -1 with error if the
// trace could not be decoded again.
int ht_decoder_stop(struct ht_decoder *decoder, struct ht_error *error);

#endif
