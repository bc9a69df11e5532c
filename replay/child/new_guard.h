// SPDX-License-Identifier: Apache-2.0
// What an operator new does that finds no memory: it ends in lane->without_memory, since what it would throw goes
// through C code to nobody.
#ifndef HEAPTAPE_NEW_GUARD_H
#define HEAPTAPE_NEW_GUARD_H

#include "replay_lane.h"

// Once, where operator new is called as a program does.
void ht_new_guard_prepare(void);

// The lane that this thread replays from now on, or NULL.
void ht_new_guard(struct ht_lane *lane);

#endif
