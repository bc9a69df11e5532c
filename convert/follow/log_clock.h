// SPDX-License-Identifier: Apache-2.0
// The clock of a raw log, read on this machine.
#ifndef HEAPTAPE_LOG_CLOCK_H
#define HEAPTAPE_LOG_CLOCK_H

#include <stdbool.h>

#include "raw_reader.h"

// False if this machine does not have the log's clock.
bool log_clock_is_here(const struct ht_raw_log *log);
uint64_t log_clock_now(const struct ht_raw_log *log);
struct ht_clock_pair log_clock_pair(const struct ht_raw_log *log);

#endif
