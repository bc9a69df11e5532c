// SPDX-License-Identifier: Apache-2.0
// The seal: the program forbids itself system calls, and the recording goes on in room that was prepared before.
#ifndef HEAPTAPE_SEAL_H
#define HEAPTAPE_SEAL_H

#include "state.h"

// The recording goes on in room that is prepared now, at least so many bytes. Each seal is one that a later call takes
// off, or none.
HIDDEN void seal_hold(uint64_t bytes_min);
HIDDEN void seal_release(void);
HIDDEN void seal_after_fork(void);
// The program gives up privileges for good, as before a filter: sealed, until that is ruled out. True where it is, now; at
// once: waits for the answer, where a child that is not recorded or the end of the recording would be next.
HIDDEN void seal_foresees_filter(void);
HIDDEN bool seal_rules_filter_out(void);
HIDDEN bool seal_rules_filter_out_at_once(void);
// To be held around the taking of a place in the prepared room, which has no system call: false where that is no more.
HIDDEN bool seal_begins_in_prepared_room(void);
HIDDEN void seal_has_placed(void);

#endif
