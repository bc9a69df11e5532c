// SPDX-License-Identifier: Apache-2.0
// How much of its process's memory a raw log accounts for, before it is converted.
#ifndef HEAPTAPE_LOG_SHARE_H
#define HEAPTAPE_LOG_SHARE_H

#include "heap_share.h"
#include "raw_reader.h"

// Reads the samples of the log, of a long one those of chunks that lie evenly in it. All 0 where there
// is none.
struct ht_heap_share log_share_read(const struct ht_raw_log *log);

#endif
