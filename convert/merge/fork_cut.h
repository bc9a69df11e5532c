// SPDX-License-Identifier: Apache-2.0
// Cuts a parent's streams where a child was forked from it: what is left is what the child inherited.
//
// The forking thread's stream is cut at the fork record that it wrote, in program order; the others by the
// record's stamp, because nothing else shows what they had done by then.
#ifndef HEAPTAPE_FORK_CUT_H
#define HEAPTAPE_FORK_CUT_H

#include "streams.h"

struct fork_point {
    uint64_t stamp;
    bool has_record;  // the stamp is the fork's own, and the forking thread may have left a fork record with
                      // it
};

// slack_stamps: how far stamps of two cores may be apart. Nothing of the streams has been read yet.
// Returns 0 or -1 with error.
int streams_cut_at_fork(struct streams *streams, const struct fork_point *fork, uint64_t slack_stamps,
                        struct ht_error *error);

#endif
