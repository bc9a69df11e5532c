// SPDX-License-Identifier: Apache-2.0
// Calls by which a program controls jemalloc, mimalloc or gperftools' tcmalloc. Only libmalloc_wrap_full.so has them.
#include <errno.h>
#include <string.h>
#include <sys/types.h>

#include "wrap.h"

// The allocator's own function, NULL if it is not there. It may come later, with a library.
static void *find(void *_Atomic *known, const char *name) {
    void *found = atomic_load_explicit(known, memory_order_acquire);
    if (found) return found;
    found = symbol_behind_us(name);
    atomic_store_explicit(known, found, memory_order_release);
    return found;
}

// ---- mimalloc, tcmalloc ----

EXPORT void mi_collect(bool force) {
    static void *_Atomic known;
    void (*behind)(bool) = find(&known, "mi_collect");
    if (!behind) return;
    struct thread_state *t = wrap_begin_control(enter_record_first(), HT_CTL_MI_COLLECT, 0, force);
    behind(force);
    wrap_end_control(t);
}

EXPORT void MallocExtension_ReleaseFreeMemory(void) {
    static void *_Atomic known;
    void (*behind)(void) = find(&known, "MallocExtension_ReleaseFreeMemory");
    if (!behind) return;
    struct thread_state *t = wrap_begin_control(enter_record_first(), HT_CTL_RELEASE_FREE_MEMORY, 0, 0);
    behind();
    wrap_end_control(t);
}

EXPORT void MallocExtension_ReleaseToSystem(size_t bytes) {
    static void *_Atomic known;
    void (*behind)(size_t) = find(&known, "MallocExtension_ReleaseToSystem");
    if (!behind) return;
    struct thread_state *t =
        wrap_begin_control(enter_record_first(), HT_CTL_RELEASE_TO_SYSTEM, 0, (int64_t)bytes);
    behind(bytes);
    wrap_end_control(t);
}

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
enum { NAMES = sizeof names / sizeof *names, ARENA_WORD = sizeof "arena." - 1, MIB_WORDS = 3 };

// Which of the names it is, with the number of its arena; NAMES: none.
static unsigned name_of(const char *text, int64_t *arena) {
    for (unsigned i = 0; i < NAMES; i++) {
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
    return NAMES;
}

// What the call is: one that changes something, or another one, of that name.
static struct ht_control_call call_of(unsigned name, int64_t arena, const char *text, const void *value,
                                      size_t bytes) {
    struct ht_control_call call = {.number = HT_CTL_MALLCTL};
    unsigned kind = name < NAMES ? names[name].kind : 0;
    bool is_signed = kind & SETS_SIGNED && value && bytes == sizeof(ssize_t);
    bool is_bool = kind & SETS_BOOL && value && bytes == sizeof(bool);
    if (name == NAMES || (kind & (SETS_SIGNED | SETS_BOOL) && !is_signed && !is_bool)) {
        ht_control_put_word(&call, text);
        return call;
    }
    call.number = names[name].number;
    call.first = arena;
    if (is_signed) call.second = *(const ssize_t *)value;
    if (is_bool) call.second = *(const bool *)value;
    return call;
}

EXPORT int mallctl(const char *text, void *old, size_t *old_bytes, void *value, size_t bytes) {
    static void *_Atomic known;
    int (*behind)(const char *, void *, size_t *, void *, size_t) = find(&known, "mallctl");
    if (!behind) return ENOENT;
    int64_t arena;
    struct thread_state *t = enter_record_first();
    if (t) {
        unsigned name = name_of(text, &arena);
        struct ht_control_call call = call_of(name, arena, text, value, bytes);
        wrap_begin_control(t, call.number, call.first, call.second);
    }
    int failed = behind(text, old, old_bytes, value, bytes);
    wrap_end_control(t);
    return failed;
}

EXPORT int mallctlnametomib(const char *text, size_t *mib, size_t *words) {
    static void *_Atomic known;
    int (*behind)(const char *, size_t *, size_t *) = find(&known, "mallctlnametomib");
    return behind ? behind(text, mib, words) : ENOENT;
}

// The name of these numbers, with its arena's. They are asked for once each, in the allocator's own time.
static unsigned name_of_mib(const size_t *mib, size_t words, int64_t *arena) {
    static struct {
        size_t words, mib[MIB_WORDS];
    } table[NAMES];
    static _Atomic bool made;
    if (!made) {
        for (unsigned i = 0; i < NAMES; i++) {
            table[i].words = MIB_WORDS;
            if (mallctlnametomib(names[i].name, table[i].mib, &table[i].words)) table[i].words = 0;
        }
        made = true;
    }
    for (unsigned i = 0; i < NAMES; i++) {
        bool same = words == table[i].words && words;
        for (size_t w = 0; same && w < words; w++)
            same = mib[w] == table[i].mib[w] || (w == 1 && names[i].kind & ARENA);
        *arena = same && names[i].kind & ARENA ? (int64_t)mib[1] : 0;
        if (same) return i;
    }
    *arena = 0;
    return NAMES;
}

EXPORT int mallctlbymib(const size_t *mib, size_t words, void *old, size_t *old_bytes, void *value,
                        size_t bytes) {
    static void *_Atomic known;
    int (*behind)(const size_t *, size_t, void *, size_t *, void *, size_t) = find(&known, "mallctlbymib");
    if (!behind) return ENOENT;
    int64_t arena;
    struct thread_state *t = enter_allocator_first();
    if (t) {
        unsigned name = name_of_mib(mib, words, &arena);
        struct ht_control_call call =
            call_of(name, arena, name < NAMES ? names[name].name : "by mib", value, bytes);
        set_gate(t, GATE_BUSY_OWN);
        wrap_begin_control(t, call.number, call.first, call.second);
    }
    int failed = behind(mib, words, old, old_bytes, value, bytes);
    wrap_end_control(t);
    return failed;
}
