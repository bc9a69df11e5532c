// SPDX-License-Identifier: Apache-2.0
// The pass that checks the allocator instead of measuring it: every block is filled with a pattern of its
// own, which is checked again when the block is freed, reallocated, and at the end.
#ifndef HEAPTAPE_VERIFY_PASS_H
#define HEAPTAPE_VERIFY_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator.h"
#include "replay_lane.h"
#include "verify_findings.h"

struct ht_verify;  // what all lanes of such a pass share

// How much memory it needs for so many slots.
size_t ht_verify_bytes(uint32_t slots);

// memory: as many zeroed bytes that are nobody's heap. server: the loaded allocator. known: alignments that
// it is known to get wrong. table: of blocks by slot, those of all copies of the trace one after the other.
// findings: where to write what is found.
struct ht_verify *ht_verify_prepare(void *memory, const struct ht_server *server, void **table,
                                    uint32_t slots, struct ht_known_alignments known,
                                    struct ht_verify_findings *findings);

// Runs all of the lane's stream.
void ht_verify_run(struct ht_lane *lane);

// Checks what is live when all has been executed.
void ht_verify_end(struct ht_verify *verify);

#endif
