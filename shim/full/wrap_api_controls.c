// SPDX-License-Identifier: Apache-2.0
// Calls by which a program controls jemalloc, mimalloc or gperftools' tcmalloc. Only libmalloc_wrap_full.so has them.
#include <errno.h>

#include "loader.h"
#include "mallctl_names.h"
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

EXPORT int mallctl(const char *text, void *old, size_t *old_bytes, void *value, size_t bytes) {
    static void *_Atomic known;
    int (*behind)(const char *, void *, size_t *, void *, size_t) = find(&known, "mallctl");
    if (!behind) return ENOENT;
    struct thread_state *t = enter_record_first();
    if (t) {
        struct ht_control_call call = wrap_mallctl_call(text, value, bytes);
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

// Of a name that changes something: its numbers, for arena 0. They are asked for once.
struct numbered {
    size_t words, mib[WRAP_MALLCTL_WORDS];
};

static const struct numbered *numbered_names(void) {
    static struct numbered table[WRAP_MALLCTL_NAMES];
    static _Atomic bool made;
    for (unsigned i = 0; i < WRAP_MALLCTL_NAMES && !made; i++) {
        table[i].words = WRAP_MALLCTL_WORDS;
        if (mallctlnametomib(wrap_mallctl_name(i), table[i].mib, &table[i].words)) table[i].words = 0;
    }
    made = true;
    return table;
}

// The number of the arena may be another one.
static struct ht_control_call call_of_mib(const size_t *mib, size_t words, const void *value, size_t bytes) {
    const struct numbered *table = numbered_names();
    for (unsigned i = 0; i < WRAP_MALLCTL_NAMES; i++) {
        bool same = words && words == table[i].words, of_arena = wrap_mallctl_has_arena(i);
        for (size_t w = 0; same && w < words; w++) same = mib[w] == table[i].mib[w] || (w == 1 && of_arena);
        if (!same) continue;
        struct ht_control_call call = wrap_mallctl_call(wrap_mallctl_name(i), value, bytes);
        if (of_arena && call.number != HT_CTL_MALLCTL) call.first = (int64_t)mib[1];
        return call;
    }
    return wrap_mallctl_call("by mib", value, bytes);
}

EXPORT int mallctlbymib(const size_t *mib, size_t words, void *old, size_t *old_bytes, void *value,
                        size_t bytes) {
    static void *_Atomic known;
    int (*behind)(const size_t *, size_t, void *, size_t *, void *, size_t) = find(&known, "mallctlbymib");
    if (!behind) return ENOENT;
    struct thread_state *t = enter_allocator_first();
    if (t) {
        struct ht_control_call call = call_of_mib(mib, words, value, bytes);
        set_gate(t, GATE_BUSY_OWN);
        wrap_begin_control(t, call.number, call.first, call.second);
    }
    int failed = behind(mib, words, old, old_bytes, value, bytes);
    wrap_end_control(t);
    return failed;
}
