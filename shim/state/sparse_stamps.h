// SPDX-License-Identifier: Apache-2.0
// Which calls take a stamp.
//
// To read the cycle counter is half of what a call costs. A process with one thread needs it only where time has passed:
// its calls are in order anyway. So a call has no stamp where the kernel's coarse clock, which ticks every few
// milliseconds, shows what it showed to the call before. Stamps then come after 1, 2, 4... calls, and from 255 on always
// so: by the first of them a reader knows how fast the calls follow each other after a pause.
//
// That ends for good, in this recording and later ones of the process, where a second stream begins: of a thread, of one
// that libc does not know, or of a signal handler that interrupted a hook. The second stream's first stamp comes after
// that end. So no call without a stamp was made later than it.
#ifndef HEAPTAPE_SPARSE_STAMPS_H
#define HEAPTAPE_SPARSE_STAMPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "attributes.h"
#include "clock.h"
#include "raw_append.h"

// Used by the thread of the first stream alone, except `alone`.
struct sparse_stamps {
    // Points to libc's word on whether there is one thread only, or to a zero: every call takes a stamp.
    const char *_Atomic alone;
    // What the clock shows, in two words: the kernel's, or, where those are not known, `last`: then it never seems to tick,
    // `left` stays 0, and sparse_stamps_due() asks the clock.
    const volatile uint64_t *clock;
    uint64_t last[2];     // what it showed last
    uint32_t left;        // how many calls may go without a stamp before the next
    uint32_t asked_left;  // the same where the clock has to be asked
    uint32_t room;        // the same after the next
};
extern HIDDEN struct sparse_stamps sparse_stamps;

// Once in a process image.
HIDDEN void sparse_stamps_find(void);
// In the first recording of this process image, or of a forked child, before its log's header is written.
HIDDEN void sparse_stamps_begin(void);
// From here on every call takes a stamp.
HIDDEN void sparse_stamps_end(void);
// The coarse clock's tick, for the header of a log that may have calls without stamps; 0: it has none.
HIDDEN uint64_t sparse_stamps_tick_ns(void);
// The next call takes a stamp.
HIDDEN void sparse_stamps_next(void);

HIDDEN bool sparse_stamps_due(void);

// Does this call of the stream take a stamp? To be asked once for each call.
HT_ALWAYS_INLINE bool stamp_is_due(void) {
    struct sparse_stamps *s = &sparse_stamps;
    const char *alone = atomic_load_explicit(&s->alone, memory_order_relaxed);
    if (unlikely(!*(const volatile char *)alone)) return true;
    bool ticked = ((s->clock[0] ^ s->last[0]) | (s->clock[1] ^ s->last[1])) != 0;
    if (unlikely(ticked || !s->left)) return sparse_stamps_due();
    s->left--;
    return false;
}
// Is this a process with one thread, and does the clock show what it showed to the last call that asked? Then what need not be
// done at each call may wait for some.
HT_ALWAYS_INLINE bool is_within_tick(void) {
    const struct sparse_stamps *s = &sparse_stamps;
    const char *alone = atomic_load_explicit(&s->alone, memory_order_relaxed);
    return *(const volatile char *)alone && !((s->clock[0] ^ s->last[0]) | (s->clock[1] ^ s->last[1]));
}
// 0: none.
HT_ALWAYS_INLINE uint64_t stamp_if_due(void) { return stamp_is_due() ? stamp_now() : 0; }

#endif
