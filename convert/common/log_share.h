// SPDX-License-Identifier: Apache-2.0
// What a process used, as its raw log says before it is converted: memory, how much of it recorded calls account for, CPU time.
#ifndef HEAPTAPE_LOG_SHARE_H
#define HEAPTAPE_LOG_SHARE_H

#include "heap_share.h"
#include "raw_reader.h"

// cpu_ns: of the program that the log is of; what its process executed before is not in it.
struct log_use {
    struct ht_heap_share share;
    uint64_t cpu_ns;
};

// Reads the samples of the log, of a long one those of chunks that lie evenly in it. All 0 where there
// is none.
struct log_use log_use_read(const struct ht_raw_log *log);

#endif
