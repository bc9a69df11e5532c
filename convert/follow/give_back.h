// Gives the consumed space of a raw log back to the file system, by holes in the file.
#ifndef HEAPTAPE_GIVE_BACK_H
#define HEAPTAPE_GIVE_BACK_H

#include "live_streams.h"

struct give_back {
    const struct ht_raw_log *log;
    char trace[HT_RAW_CONSUMER_BYTES];  // where what is given back can be read: goes into the log's header
    bool marked;                        // the header says so
    bool impossible;                    // this file system makes no holes
    uint64_t bytes;                     // given back so far
};

// Gives back what all streams have behind them: nothing that any reader needs but the one who goes on from
// the state in which the streams are. Returns 0 or -1 with error; a file system without holes is no error.
int give_back(struct give_back *give, struct live_streams *live, struct ht_error *error);

// Has the log's follower opened it for writing at this moment? If not, it will not until `log` is closed: it
// waits.
bool give_back_under_way(const struct ht_raw_log *log);

#endif
