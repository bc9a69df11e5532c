// SPDX-License-Identifier: Apache-2.0
// What verification found, in words.
#ifndef HEAPTAPE_VERIFY_REPORT_H
#define HEAPTAPE_VERIFY_REPORT_H

#include <jansson.h>

#include "form_builder.h"
#include "verify_findings.h"

enum { HT_VIOLATION_TEXT_BYTES = 320, HT_EXERCISED_TEXT_BYTES = 1024 };

struct ht_verify_report {
    uint64_t known;  // findings that a known fault of the allocator explains
    uint64_t violations, counts[HT_VIOLATION_KINDS], blocks_checked;
    bool usable_unknown;
    uint64_t blocks_by[HT_VERIFIED_TRACE], largest_bytes, largest_alignment, threads;  // of the trace
    bool tortured;    // the allocator, too, however far it came
    bool one_thread;  // was asked for
    struct ht_torture_record torture;
    uint32_t tortured_by;  // a bit for each ht_verified_function that made a block
    uint64_t torture_largest_bytes, torture_largest_alignment;
    size_t texts_count;
    char texts[2 * HT_VIOLATIONS_REPORTED]
              [HT_VIOLATION_TEXT_BYTES];  // the first ones, of the trace and of the torture
};

extern const char *const ht_violation_names[HT_VIOLATION_KINDS];  // as in results

// Puts findings into words, each event by its number in the trace. Where the trace cannot be read
// again, calls are named by thread and number instead.
void ht_verify_describe(const struct ht_built_form *built, const struct ht_verify_findings *findings,
                        struct ht_verify_report *report);

// Adds what the torture found and exercised.
void ht_verify_add_torture(const struct ht_verify_findings *findings, struct ht_verify_report *report);
// In which call the torture came to its end, if it is not over.
void ht_verify_torture_call(char text[HT_VIOLATION_TEXT_BYTES], const struct ht_torture_record *record);

// What the trace and the torture asked of the allocator, and what neither did: no faults found say nothing about the latter.
const char *ht_verify_exercised(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report);
const char *ht_verify_tortured(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report);
const char *ht_verify_not_exercised(char text[HT_EXERCISED_TEXT_BYTES],
                                    const struct ht_verify_report *report);
// What is against a standard and no violation; empty: nothing.
const char *ht_verify_departures(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report);

// Adds to a line of results what was found, by kind and the first of it in words, and what was exercised. report: NULL of a run
// that verifies nothing.
void ht_verify_json_add(json_t *run, const struct ht_verify_report *report);

#endif
