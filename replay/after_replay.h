// What is left when everything has been replayed, and when all of that has been freed.
#ifndef HEAPTAPE_AFTER_REPLAY_H
#define HEAPTAPE_AFTER_REPLAY_H

#include "child_figures.h"

// After the figures of the end have been taken. live: a bit for each slot that holds a block.
void ht_after_replay(void **table, uint32_t slots, const uint64_t *live, int statm_fd, int smaps_fd,
                     struct ht_child_figures *figures);

#endif
