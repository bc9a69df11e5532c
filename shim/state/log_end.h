// SPDX-License-Identifier: Apache-2.0
// How a log ends before the process does: where it may not grow, by `heaptape ctl`, or for good.
#ifndef HEAPTAPE_LOG_END_H
#define HEAPTAPE_LOG_END_H

#include "state.h"

// How far the process has come, and whether it waits to be recorded, which a forked child goes by.
extern HIDDEN enum disposition { UNDECIDED, STARTING, RECORDS, NEVER } _Atomic recorder_disposition;
extern HIDDEN _Atomic bool recorder_paused;

HIDDEN void set_epoch(uint32_t epoch);

// Ends this log; the reason goes into the header. EPOCH_PAUSED afterwards if another may follow, else
// EPOCH_OFF.
HIDDEN void log_end(struct recording *recording, enum ht_stop_reason reason, int error_number,
                    enum epoch next);
// Obeys the header's control word, if it asks for something.
HIDDEN void log_heed_control(struct recording *recording);
// No recording any more in this process and its children.
HIDDEN void log_give_up(enum ht_stop_reason reason);

#endif
