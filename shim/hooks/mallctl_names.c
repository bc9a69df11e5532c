// SPDX-License-Identifier: Apache-2.0
#include "mallctl_names.h"

#include <string.h>
#include <sys/types.h>

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
