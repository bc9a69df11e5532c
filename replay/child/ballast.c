// SPDX-License-Identifier: Apache-2.0
#include "ballast.h"

#include <sys/mman.h>

enum { PAGE_BYTES = 4096 };

static uint64_t whole_pages(uint64_t bytes) { return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES; }

bool ht_ballast_prepare(struct ht_ballast *ballast, const uint64_t *own_bytes, uint64_t samples,
                        uint64_t *reached) {
    *ballast =
        (struct ht_ballast){.own_bytes = own_bytes, .reached = reached, .lock = PTHREAD_MUTEX_INITIALIZER};
    for (uint64_t i = 0; i < samples; i++) {
        if (own_bytes[i] > ballast->room_bytes) ballast->room_bytes = own_bytes[i];
    }
    ballast->room_bytes = whole_pages(ballast->room_bytes) + PAGE_BYTES;
    void *memory = mmap(NULL, ballast->room_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    ballast->memory = memory;
    return true;
}

void ht_ballast_follow(struct ht_ballast *ballast, uint64_t sample) {
    pthread_mutex_lock(&ballast->lock);
    uint64_t wanted = whole_pages(ballast->own_bytes[sample]), held = ballast->held_bytes;
    if (sample + 1 > *ballast->reached) *ballast->reached = sample + 1;
    for (uint64_t at = held; at < wanted; at += PAGE_BYTES) ((volatile char *)ballast->memory)[at] = 1;
    if (wanted < held) madvise(ballast->memory + wanted, held - wanted, MADV_REMOVE);
    ballast->held_bytes = wanted;
    pthread_mutex_unlock(&ballast->lock);
}
