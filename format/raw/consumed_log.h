// SPDX-License-Identifier: Apache-2.0
// Logs into which a follower punches holes: who reads one to its end asks again whether that was all of it.
#ifndef HEAPTAPE_CONSUMED_LOG_H
#define HEAPTAPE_CONSUMED_LOG_H

#include "raw_reader.h"

// Refuses a log with holes, and names its trace. Returns 0 or -1 with error.
//
// A follower marks the log before it makes the first hole (docs/reference/raw-log-format.md, "Consumed logs"), and what
// is read here is read in order. So a reader that finds no mark after the last byte that it has read has read
// no hole. A check before the first byte is not enough.
int consumed_log_check(const struct ht_raw_log *log, struct ht_error *error);

// One follower at a time: locks the log for as long as it is open. Readers are not kept from it; where the
// lock is another's, nothing has been changed. *locked is false on a file system without locks. Returns 0 or
// -1 with error.
int consumed_log_lock(const struct ht_raw_log *log, bool *locked, struct ht_error *error);

#endif
