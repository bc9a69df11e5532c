// SPDX-License-Identifier: Apache-2.0
// What verification found, in words.
#ifndef HEAPTAPE_VERIFY_REPORT_H
#define HEAPTAPE_VERIFY_REPORT_H

#include "form_builder.h"
#include "verify_findings.h"

enum { HT_VIOLATION_TEXT_BYTES = 320, HT_EXERCISED_TEXT_BYTES = 512 };

struct ht_verify_report {
    uint64_t known;  // findings that a known fault of the allocator explains
    uint64_t violations, counts[HT_VIOLATION_KINDS], blocks_checked;
    bool usable_unknown;
    uint64_t blocks_by[HT_VERIFIED_FUNCTIONS], largest_bytes, largest_alignment, threads;
    size_t texts_count;
    char texts[HT_VIOLATIONS_REPORTED][HT_VIOLATION_TEXT_BYTES];  // the first ones
};

extern const char *const ht_violation_names[HT_VIOLATION_KINDS];  // as in results

// Puts findings into words, each event by its number in the trace. Where the trace cannot be read
// again, calls are named by thread and number instead.
void ht_verify_describe(const struct ht_built_form *built, const struct ht_verify_findings *findings,
                        struct ht_verify_report *report);

// What the pass asked of the allocator, and what it did not: no faults found say nothing about the latter.
const char *ht_verify_exercised(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report);
const char *ht_verify_not_exercised(char text[HT_EXERCISED_TEXT_BYTES],
                                    const struct ht_verify_report *report);

#endif
