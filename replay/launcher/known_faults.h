// SPDX-License-Identifier: Apache-2.0
// What is known to be wrong with the version of an allocator that takes part (struct ht_fault): calls that it
// explains do not make a run fail, and are distinguished.
#ifndef HEAPTAPE_KNOWN_FAULTS_H
#define HEAPTAPE_KNOWN_FAULTS_H

#include <jansson.h>

#include "allocator_choice.h"
#include "replay_job.h"
#include "replay_warnings.h"

// The alignments that the choice, once described, is known to get wrong; none: 0 and 0.
struct ht_known_alignments ht_known_alignments_of(const struct ht_choice *choice);

// Adds to a result: known_failures, how many calls or findings of verification a known fault explains, and
// known_faults, the faults' sentences.
void ht_known_faults_add(json_t *run, const struct ht_choice *choice, uint64_t known_failures);

// Warns of them, once for each choice.
void ht_known_faults_warn(struct ht_warnings *warnings, const struct ht_choice *choice,
                          uint64_t known_failures);

#endif
