// SPDX-License-Identifier: Apache-2.0
// Logs of a run whose processes have ended are cut behind their last chunks: a log is sparse, or has room that was prepared.
#ifndef HEAPTAPE_CUT_LOG_H
#define HEAPTAPE_CUT_LOG_H

#include <stdbool.h>

#include "raw_reader.h"

// Is that a name as the recorder gives it to logs, without folder? Is it a log of the run of that id?
bool log_has_name(const char *name);
bool log_is_of_run(const struct ht_raw_log *log, const char *id);
// Cuts it, if its process has ended.
void log_cut(const struct ht_raw_log *log);
// The same, if it has much room there.
void log_cut_if_ended(const struct ht_raw_log *log);

#endif
