// SPDX-License-Identifier: Apache-2.0
// glibc's calls by which a program controls malloc, or asks how it does. glibc always has them, so nobody learns from ours which
// allocator there is; programs of another C library expect none. Those of other allocators are in full/.
#include "control_calls.h"
#include "loader.h"
#include "memory_sample.h"
#include "older_libc.h"
#include "wrap.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>

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

// Records a call that only asks: what it allocates, to print, is the program's.
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

// ---- jemalloc's mallctl ----

// ARENA: the name has an arena's number. SETS_*: only if a new value of that type is passed.
enum { ARENA = 1, SETS_SIGNED = 2, SETS_BOOL = 4 };
static const struct {
    const char *name;  // of arena 0
    enum ht_control_number number;
    unsigned kind;
} names[] = {{"arena.0.purge", HT_CTL_ARENA_PURGE, ARENA},
             {"arena.0.decay", HT_CTL_ARENA_DECAY, ARENA},
             {"arena.0.dirty_decay_ms", HT_CTL_ARENA_DIRTY_DECAY, ARENA | SETS_SIGNED},
             {"arena.0.muzzy_decay_ms", HT_CTL_ARENA_MUZZY_DECAY, ARENA | SETS_SIGNED},
             {"arenas.dirty_decay_ms", HT_CTL_DIRTY_DECAY, SETS_SIGNED},
             {"arenas.muzzy_decay_ms", HT_CTL_MUZZY_DECAY, SETS_SIGNED},
             {"background_thread", HT_CTL_BACKGROUND_THREAD, SETS_BOOL},
             {"thread.tcache.flush", HT_CTL_TCACHE_FLUSH, 0}};
enum { ARENA_WORD = sizeof "arena." - 1 };
_Static_assert(sizeof names / sizeof *names == WRAP_MALLCTL_NAMES, "as many as are told of");

const char *wrap_mallctl_name(unsigned number) { return names[number].name; }
bool wrap_mallctl_has_arena(unsigned number) { return names[number].kind & ARENA; }

// Which of the names it is, with the number of its arena; WRAP_MALLCTL_NAMES: none.
static unsigned name_of(const char *text, int64_t *arena) {
    for (unsigned i = 0; i < WRAP_MALLCTL_NAMES; i++) {
        *arena = 0;
        if (!(names[i].kind & ARENA)) {
            if (!strcmp(text, names[i].name)) return i;
            continue;
        }
        const char *at = text + ARENA_WORD;
        if (strncmp(text, names[i].name, ARENA_WORD) || *at < '0' || *at > '9') continue;
        while (*at >= '0' && *at <= '9' && *arena < 1 << 24) *arena = 10 * *arena + (*at++ - '0');
        if (!strcmp(at, names[i].name + ARENA_WORD + 1)) return i;
    }
    return WRAP_MALLCTL_NAMES;
}

struct ht_control_call wrap_mallctl_call(const char *text, const void *value, size_t bytes) {
    struct ht_control_call call = {.number = HT_CTL_MALLCTL};
    int64_t arena;
    unsigned name = name_of(text, &arena), kind = name < WRAP_MALLCTL_NAMES ? names[name].kind : 0;
    bool is_signed = kind & SETS_SIGNED && value && bytes == sizeof(ssize_t);
    bool is_bool = kind & SETS_BOOL && value && bytes == sizeof(bool);
    if (name == WRAP_MALLCTL_NAMES || (kind & (SETS_SIGNED | SETS_BOOL) && !is_signed && !is_bool)) {
        ht_control_put_word(&call, text);
        return call;
    }
    call.number = names[name].number;
    call.first = arena;
    if (is_signed) call.second = *(const ssize_t *)value;
    if (is_bool) call.second = *(const bool *)value;
    return call;
}
