// SPDX-License-Identifier: Apache-2.0
// Punches holes into a raw log where it was consumed: its space goes back to the file system.
#ifndef HEAPTAPE_PUNCH_HOLES_H
#define HEAPTAPE_PUNCH_HOLES_H

#include "live_streams.h"

struct hole_punch {
    const struct ht_raw_log *log;
    char trace[HT_RAW_CONSUMER_BYTES];  // where what was in the holes can be read: goes into the log's header
    bool announced;                     // the header has it
    bool impossible;                    // in this log there must be no holes, or its file system makes none
    uint64_t bytes;                     // punched so far
};

// Punches what all streams have behind them: nothing that any reader needs but the one who goes on from
// the state in which the streams are. Returns 0 or -1 with error; a file system without holes is no error.
int punch_holes(struct hole_punch *holes, struct live_streams *live, struct ht_error *error);

// Of a log whose process has ended and whose trace is complete, leaves the header alone. False where that cannot be.
bool punch_all_but_header(struct hole_punch *holes);

// Has the log's follower opened it for writing at this moment? If not, it will not until `log` is closed: it
// waits.
bool punch_holes_under_way(const struct ht_raw_log *log);

#endif
