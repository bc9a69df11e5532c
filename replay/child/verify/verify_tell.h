// SPDX-License-Identifier: Apache-2.0
// What the trace's calls and those of the torture are held against alike, and where violations are written.
#ifndef HEAPTAPE_VERIFY_TELL_H
#define HEAPTAPE_VERIFY_TELL_H

#include <stddef.h>

#include "verify_findings.h"

// Counts a violation, and keeps it if it is one of the first.
void ht_verify_tell(struct ht_verify_findings *findings, const struct ht_violation *violation);
// Counts one like another that was told.
void ht_verify_count(struct ht_verify_findings *findings, enum ht_violation_kind kind);

// Of a block for which no alignment was asked: fit for any object of the standard types that is no larger.
uint64_t ht_verify_alignment(uint64_t bytes);

void ht_verify_raise(_Atomic uint64_t *most, uint64_t value);

#endif
