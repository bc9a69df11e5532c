// SPDX-License-Identifier: Apache-2.0
// The state of a raw log on this machine: why its recording ended, whether it is still written, whether a follower has consumed
// it, and its clock.
#ifndef HEAPTAPE_RAW_STATE_H
#define HEAPTAPE_RAW_STATE_H

#include <stdbool.h>
#include <stddef.h>

#include "raw_layout.h"
#include "raw_reader.h"

// ---- why a recording ended before its process did ----

enum { HT_STOP_TEXT_BYTES = 192 };

// The reason that the header gives, in words, or NULL where it gives none: the recording went on to the end.
const char *ht_stop_words(const struct ht_raw_header *header, char text[HT_STOP_TEXT_BYTES]);

// Ended against the user's will: needs a warning.
bool ht_stopped_early(const struct ht_raw_header *header);

// ---- is it still written? ----

// Does any process have the file open, or mapped, for writing? Asking the process that the header names would
// not do: its number may be one of another namespace. Only a file system without leases leaves no other way.
bool ht_raw_in_use(const struct ht_raw_log *log);

// Does the process that the header names have it mapped, as far as can be seen from here?
bool ht_raw_is_mapped(const struct ht_raw_log *log);

// ---- logs into which a follower punches holes: who reads one to its end asks again whether that was all of it ----

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

// ---- its clock ----

// False if this machine does not have the log's clock.
bool log_clock_is_here(const struct ht_raw_log *log);
uint64_t log_clock_now(const struct ht_raw_log *log);
struct ht_clock_pair log_clock_pair(const struct ht_raw_log *log);

#endif
