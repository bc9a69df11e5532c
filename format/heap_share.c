// SPDX-License-Identifier: Apache-2.0
#include "heap_share.h"

#include <math.h>
#include <stdio.h>

// Ordinary programs lie above: compilers and interpreters with pools of their own from a quarter on. Below are
// programs with an allocator of their own linked in, and runtimes that keep their heap to themselves.
enum { SMALL_SHARE = 5 };
static const uint64_t UNEXPLAINED_MIN = UINT64_C(8) << 20;

uint64_t ht_heap_explained(uint64_t before_bytes, uint64_t peak_bytes, uint64_t allocated_bytes) {
    uint64_t room = UINT64_MAX - before_bytes;
    uint64_t most = before_bytes + (allocated_bytes < room ? allocated_bytes : room);
    return peak_bytes < most ? peak_bytes : most;
}

bool ht_heap_share_is_small(const struct ht_heap_share *share) {
    return share->explained_bytes < share->anon_bytes / SMALL_SHARE &&
           share->anon_bytes - share->explained_bytes >= UNEXPLAINED_MIN;
}

bool ht_memory_differs(double error, double bytes) {
    static const double SHARE = 0.05, BYTES = 2e6;
    return fabs(error) > SHARE && fabs(bytes) > BYTES;
}

bool ht_heap_is_unknown(uint64_t low_bytes, uint64_t high_bytes) {
    double low = (double)low_bytes, high = (double)high_bytes;
    return high > low && ht_memory_differs((high - low) / low, high - low);
}

// Fragmentation alone seldom doubles it.
enum { SWOLLEN_TIMES = 4 };

bool ht_heap_is_swollen(uint64_t heap_bytes, uint64_t live_bytes) {
    return heap_bytes / SWOLLEN_TIMES > live_bytes && heap_bytes - live_bytes >= UNEXPLAINED_MIN;
}

const char *ht_heap_swollen_words(char text[HT_HEAP_SWOLLEN_TEXT_BYTES], uint64_t heap_bytes,
                                  uint64_t live_bytes) {
    snprintf(text, HT_HEAP_SWOLLEN_TEXT_BYTES,
             "the recorded heap held %.1f MB at its peak, and its blocks never more than %.1f MB: it is very "
             "fragmented, or holds memory that does not come from malloc",
             (double)heap_bytes / 1e6, (double)live_bytes / 1e6);
    return text;
}

const char *ht_heap_share_words(char text[HT_HEAP_SHARE_TEXT_BYTES], const struct ht_heap_share *share) {
    double explained = (double)share->explained_bytes / 1e6, anon = (double)share->anon_bytes / 1e6;
    char own[96] = "";
    if (share->own_bytes >= share->anon_bytes / 2)
        snprintf(own, sizeof own, "; its own mappings, stacks and data hold %.1f MB",
                 (double)share->own_bytes / 1e6);
    snprintf(
        text, HT_HEAP_SHARE_TEXT_BYTES,
        "the recorded heap explains %.*f of %.1f MB of anonymous memory: most of this program's memory does "
        "not come from malloc%s%s%s",
        explained < 0.095 ? 2 : 1, explained, anon, own, share->inside && *share->inside ? "; " : "",
        share->inside ? share->inside : "");
    return text;
}
