// SPDX-License-Identifier: Apache-2.0
// glibc's calls by which a program controls malloc, or asks how it does. glibc always has them, so nobody learns from ours which
// allocator there is; programs of another C library expect none. Those of other allocators are in full/.
#include "control_calls.h"
#include "loader.h"
#include "memory_sample.h"
#include "older_libc.h"
#include "wrap.h"

#include <errno.h>

static void put(struct thread_state *t, enum ht_control_number number, int64_t first, int64_t second) {
    uint64_t word[4] = {stamp_now(), number, (uint64_t)first, (uint64_t)second};
    if (room_for_record(t)) ht_append_long(&t->cursor, HT_LONG_CONTROL, word, 4);
}

struct thread_state *wrap_begin_control(struct thread_state *t, enum ht_control_number number, int64_t first,
                                        int64_t second) {
    if (!t) return NULL;
    put(t, number, first, second);
    set_gate(t, GATE_BUSY_REAL);
    return t;
}

// Memory may be less by now.
void wrap_end_control(struct thread_state *t) {
    if (!t) return;
    int saved = errno;
    set_gate(t, GATE_BUSY_OWN);
    memory_sample(t, stamp_now(), false);
    errno = saved;
    leave(t);
}

#ifdef __GLIBC__
#include <malloc.h>

// Of a call that only asks: what it allocates, to print, is the program's.
static void put_question(struct thread_state *t, enum ht_control_number number) {
    if (!t) return;
    put(t, number, 0, 0);
    leave(t);
}

EXPORT int mallopt(int parameter, int value) {
    struct thread_state *t = wrap_begin_control(enter_record_first(), HT_CTL_MALLOPT, parameter, value);
    if (!real.mallopt) real.mallopt = symbol_behind_us("mallopt");
    int done = real.mallopt ? real.mallopt(parameter, value) : 0;
    wrap_end_control(t);
    return done;
}

EXPORT int malloc_trim(size_t pad) {
    struct thread_state *t = wrap_begin_control(enter_record_first(), HT_CTL_TRIM, 0, (int64_t)pad);
    if (!real.malloc_trim) real.malloc_trim = symbol_behind_us("malloc_trim");
    int done = real.malloc_trim ? real.malloc_trim(pad) : 0;
    wrap_end_control(t);
    return done;
}

EXPORT struct mallinfo mallinfo(void) {
    put_question(enter_record_first(), HT_CTL_MALLINFO);
    struct mallinfo (*ask)(void) = symbol_behind_us("mallinfo");
    return ask ? ask() : (struct mallinfo){0};
}

EXPORT int malloc_info(int options, FILE *file) {
    put_question(enter_record_first(), HT_CTL_MALLOC_INFO);
    int (*ask)(int, FILE *) = symbol_behind_us("malloc_info");
    if (ask) return ask(options, file);
    errno = EINVAL;
    return -1;
}

EXPORT void malloc_stats(void) {
    put_question(enter_record_first(), HT_CTL_MALLOC_STATS);
    void (*ask)(void) = symbol_behind_us("malloc_stats");
    if (ask) ask();
}

EXPORT struct mallinfo2 mallinfo2(void) {
    put_question(enter_record_first(), HT_CTL_MALLINFO2);
    struct mallinfo2 (*ask)(void) = symbol_behind_us("mallinfo2");
    return ask ? ask() : (struct mallinfo2){0};
}
#endif
