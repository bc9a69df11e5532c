// SPDX-License-Identifier: Apache-2.0
// What is left when everything has been replayed, and when all of that has been freed.
#ifndef HEAPTAPE_AFTER_REPLAY_H
#define HEAPTAPE_AFTER_REPLAY_H

#include "allocator.h"
#include "child_figures.h"

// The kernel's view of the end, before anything is freed.
void ht_after_replay(int smaps_fd, int statm_fd, struct ht_child_figures *figures);

// Everything has been freed: what remains, and what remains once the allocator has been asked to give back
// what it can.
void ht_after_freeing(const struct ht_server *server, int statm_fd, struct ht_child_figures *figures);

#endif
