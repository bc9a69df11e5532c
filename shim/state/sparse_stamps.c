// SPDX-License-Identifier: Apache-2.0
#include "sparse_stamps.h"

#include "apart.h"
#include "coarse_clock.h"
#include "real.h"

static const char never;
static const char *single_threaded = &never;  // libc's
static struct coarse_clock coarse_clock;
struct sparse_stamps sparse_stamps = {.alone = &never, .clock = sparse_stamps.last};

// With another libc or emulator one of these may be missing: then every call takes a stamp.
void sparse_stamps_find(void) {
    const char *libc = symbol_anywhere("__libc_single_threaded");
    if (!libc) return;
    coarse_clock = coarse_clock_find();
    if (!coarse_clock.read) return;
    if (coarse_clock.words) sparse_stamps.clock = coarse_clock.words;
    single_threaded = libc;
}

void sparse_stamps_begin(void) {
    atomic_store(&sparse_stamps.alone, single_threaded);
    apart_while_alone(single_threaded);
}

void sparse_stamps_end(void) {
    atomic_store(&sparse_stamps.alone, &never);
    apart_while_alone(NULL);
}

uint64_t sparse_stamps_tick_ns(void) {
    return atomic_load(&sparse_stamps.alone) == &never ? 0 : coarse_clock.tick_ns;
}

void sparse_stamps_next(void) { sparse_stamps.left = sparse_stamps.asked_left = 0; }

// Has the clock ticked since this was asked last?
static bool ticked(struct sparse_stamps *s) {
    uint64_t now[2];
    struct timespec asked = {0};
    if (coarse_clock.words) {
        now[0] = coarse_clock.words[0];
        now[1] = coarse_clock.words[1];
    } else {
        coarse_clock.read(CLOCK_MONOTONIC_COARSE, &asked);
        now[0] = (uint64_t)asked.tv_sec;
        now[1] = (uint64_t)asked.tv_nsec;
    }
    bool changed = now[0] != s->last[0] || now[1] != s->last[1];
    s->last[0] = now[0];
    s->last[1] = now[1];
    return changed;
}

bool sparse_stamps_due(void) {
    struct sparse_stamps *s = &sparse_stamps;
    if (coarse_clock.words && unlikely(!coarse_clock_words_hold(&coarse_clock))) {
        coarse_clock.words = NULL;
        s->clock = s->last;
        s->left = 0;
    }
    uint32_t *left = coarse_clock.words ? &s->left : &s->asked_left;
    bool after_tick = ticked(s);
    if (likely(!after_tick && *left)) {
        --*left;
        return false;
    }
    s->room = after_tick ? 0 : s->room < HT_UNTIMED_MAX ? 2 * s->room + 1 : s->room;
    *left = s->room;
    return true;
}
