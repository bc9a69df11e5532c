// SPDX-License-Identifier: Apache-2.0
// What surrounds the calls of a replay: a heap that has been used, memory that the program held itself, and polluted caches.
#ifndef HEAPTAPE_SURROUNDINGS_H
#define HEAPTAPE_SURROUNDINGS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "replay_job.h"

// `blocks` has room for those that are freed, blocks less kept; it is not the heap's. False: an allocation failed.
bool ht_age_heap(const struct ht_aging *aging, void **blocks);

// For the null replayer: as much resident memory as the kept blocks have bytes, so that they are no part of what an allocator
// takes beyond it. False: there is none.
bool ht_age_without_heap(const struct ht_aging *aging);

// Stands in for what the recorded program held beside its heap, in a replay under a limit of memory: shared memory, which
// the limit counts and RssAnon does not.
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

// Does in the measured child what struct ht_pollution asks for. All threads share the working sets: a program of many
// threads has no more cache than one of one.
struct ht_polluter;

// NULL with errno: no memory, or no executable memory, or no code for this processor.
struct ht_polluter *ht_polluter_make(const struct ht_pollution *pollution);

// Each time other lines and pages than the last times.
void ht_pollute(struct ht_polluter *polluter);

#endif
