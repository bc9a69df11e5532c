// SPDX-License-Identifier: Apache-2.0
// Proof of which library the calls reach: every function that the engine calls must resolve into one object,
// and that object must be the intended one. A preload or link that silently fell back to libc must never give
// figures.
#ifndef HEAPTAPE_SERVICE_PROOF_H
#define HEAPTAPE_SERVICE_PROOF_H

#include <stdbool.h>

#include "allocator.h"
#include "replay_job.h"

// Fills outcome's path and build_id, and its message if the proof fails. kind: whose object is intended; a
// preloaded one is known by the job's device and inode instead. Where the job names a C library, it must be
// the process's, whichever library has it.
bool ht_service_proof(const struct ht_job *job, const struct ht_allocator *kind, struct ht_outcome *outcome);

#endif
