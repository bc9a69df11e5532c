// SPDX-License-Identifier: Apache-2.0
// What all versions of scudo have in common. LLVM brings one with each of its releases, all of the same file
// name, so that only the folder shows which one is loaded.
#ifndef HEAPTAPE_SCUDO_H
#define HEAPTAPE_SCUDO_H

#include "allocator.h"

void ht_scudo_version(const struct ht_server *server, char *text, size_t room);
extern const struct ht_statistic ht_scudo_statistics[];
void ht_scudo_read(const struct ht_server *server, uint64_t *values);
extern const struct ht_fault ht_scudo_faults[];
void ht_scudo_purge(const struct ht_server *server);

// For the initializer of a version's kind.
#define HT_SCUDO                                                                                             \
    .usable_is_requested = true, HT_BUILD_FACT(soname, "libclang_rt.scudo_standalone"),                      \
    .known_by = "__scudo_print_stats", .version = ht_scudo_version, .statistics = ht_scudo_statistics,       \
    .read = ht_scudo_read, .purge_call = "mallopt(M_PURGE)", .purge = ht_scudo_purge,                        \
    .faults = ht_scudo_faults, .clock = "clock_gettime", .signs = "scudo_malloc*|__scudo_*|_ZN5scudo*",      \
    .linked_name = "scudo", .knobs_variable = "SCUDO_OPTIONS", .knobs_format = "%s=%s",                      \
    .knobs_separator = ':', .knobs_separators = " ,:\t\n\r",                                                 \
    .passed = "quarantine_*|thread_local_quarantine_size_kb|zero_contents|pattern_fill_contents|"            \
              "may_return_null|release_to_os_interval_ms|allocation_ring_buffer_size",                       \
    HT_BUILD_FACT(variables, "SCUDO_OPTIONS=*")

#endif
