// SPDX-License-Identifier: Apache-2.0
// Stands in for what the recorded program held beside its heap, in a replay under a limit of memory: shared memory, which
// the limit counts and RssAnon does not.
#ifndef HEAPTAPE_BALLAST_H
#define HEAPTAPE_BALLAST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ht_ballast {
    pthread_mutex_t lock;
    const uint64_t *own_bytes;  // by sample
    uint64_t held_bytes, room_bytes;
    char *memory;
    uint64_t *reached;  // tells the launcher how many samples the replay has come to
};

// False without address space for the most.
bool ht_ballast_prepare(struct ht_ballast *ballast, const uint64_t *own_bytes, uint64_t samples,
                        uint64_t *reached);
// The replay has come to this sample.
void ht_ballast_follow(struct ht_ballast *ballast, uint64_t sample);

#endif
