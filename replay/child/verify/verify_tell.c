// SPDX-License-Identifier: Apache-2.0
#include "verify_tell.h"

#include <stdalign.h>

void ht_verify_count(struct ht_verify_findings *findings, enum ht_violation_kind kind) {
    atomic_fetch_add(&findings->counts[kind], 1);
    atomic_fetch_add(&findings->violations, 1);
}

void ht_verify_tell(struct ht_verify_findings *findings, const struct ht_violation *violation) {
    ht_verify_count(findings, violation->kind);
    uint64_t number = atomic_fetch_add(&findings->told, 1);
    if (number >= HT_VIOLATIONS_REPORTED) return;
    struct ht_violation *reported = &findings->first[number];
    *reported = *violation;
    atomic_store(&reported->written, 1);
}

uint64_t ht_verify_alignment(uint64_t bytes) {
    if (bytes >= alignof(max_align_t)) return alignof(max_align_t);
    return bytes ? 1ull << (63 - __builtin_clzll(bytes)) : 1;
}

void ht_verify_raise(_Atomic uint64_t *most, uint64_t value) {
    uint64_t known = atomic_load_explicit(most, memory_order_relaxed);
    while (value > known && !atomic_compare_exchange_weak(most, &known, value)) continue;
}
