// SPDX-License-Identifier: Apache-2.0
#include "allocator_control.h"

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "allocator_calls.h"
#include "memory_probes.h"
#include "server.h"

void ht_purge_if_due(struct ht_purging *purging) {
    uint64_t now_ns = atomic_load(purging->now_ns), due_ns = atomic_load(&purging->next_ns);
    if (now_ns < due_ns) return;
    if (!atomic_compare_exchange_strong(&purging->next_ns, &due_ns, now_ns + purging->every_ns)) return;
    purging->server->kind->purge(purging->server);
}

typedef int mallctl_function(const char *, void *, size_t *, void *, size_t);

// By what each is called; jemalloc's all by one function, with a name in which %d is the arena.
static const struct {
    const char *function, *name;
    size_t value_bytes;
} steers[HT_STEERS] = {
    [HT_STEER_MALLOPT] = {"mallopt"},
    [HT_STEER_TRIM] = {"malloc_trim"},
    [HT_STEER_MI_COLLECT] = {"mi_collect"},
    [HT_STEER_RELEASE_FREE_MEMORY] = {"MallocExtension_ReleaseFreeMemory"},
    [HT_STEER_RELEASE_TO_SYSTEM] = {"MallocExtension_ReleaseToSystem"},
    [HT_STEER_ARENA_PURGE] = {"mallctl", "arena.%d.purge"},
    [HT_STEER_ARENA_DECAY] = {"mallctl", "arena.%d.decay"},
    [HT_STEER_ARENA_DIRTY_DECAY] = {"mallctl", "arena.%d.dirty_decay_ms", sizeof(ssize_t)},
    [HT_STEER_ARENA_MUZZY_DECAY] = {"mallctl", "arena.%d.muzzy_decay_ms", sizeof(ssize_t)},
    [HT_STEER_DIRTY_DECAY] = {"mallctl", "arenas.dirty_decay_ms", sizeof(ssize_t)},
    [HT_STEER_MUZZY_DECAY] = {"mallctl", "arenas.muzzy_decay_ms", sizeof(ssize_t)},
    [HT_STEER_BACKGROUND_THREAD] = {"mallctl", "background_thread", sizeof(bool)},
    [HT_STEER_TCACHE_FLUSH] = {"mallctl", "thread.tcache.flush"},
};

void ht_obeyed_find(struct ht_obeyed *obeyed, const struct ht_server *server) {
    const char *obeys = server->kind ? server->kind->obeys : NULL;
    for (unsigned i = 0; i < HT_STEERS; i++)
        obeyed->function[i] =
            ht_fits_any(obeys, steers[i].function) ? ht_server_function(steers[i].function) : NULL;
}

// An arena that the allocator does not have here is an error, which changes nothing.
static void call_mallctl(mallctl_function *function, enum ht_steer steer, const uint64_t *operand) {
    char name[64];
    ssize_t number = (ssize_t)operand[1];
    bool yes = operand[1] != 0;
    size_t bytes = steers[steer].value_bytes;
    snprintf(name, sizeof name, steers[steer].name, (int)operand[0]);
    function(name, NULL, NULL, bytes == sizeof yes ? (void *)&yes : bytes ? &number : NULL, bytes);
}

void ht_obey(const struct ht_obeyed *obeyed, const uint64_t *word) {
    enum ht_steer steer = (enum ht_steer)word[1];
    const uint64_t *operand = word + 2;
    void *function = obeyed->function[steer];
    if (!function) return;
    switch (steer) {
    case HT_STEER_MALLOPT: ((int (*)(int, int))function)((int)operand[0], (int)operand[1]); break;
    case HT_STEER_TRIM: ((int (*)(size_t))function)((size_t)operand[1]); break;
    case HT_STEER_MI_COLLECT: ((void (*)(bool))function)(operand[1] != 0); break;
    case HT_STEER_RELEASE_FREE_MEMORY: ((void (*)(void))function)(); break;
    case HT_STEER_RELEASE_TO_SYSTEM: ((void (*)(size_t))function)((size_t)operand[1]); break;
    default: call_mallctl(function, steer, operand);
    }
}

void ht_after_replay(int smaps_fd, int statm_fd, struct ht_child_figures *figures) {
    ht_residency_read(smaps_fd, &figures->residency_end);
    figures->residency_end.rss_bytes = ht_rss_anon_bytes(statm_fd);
}

void ht_after_freeing(const struct ht_server *server, int statm_fd, struct ht_child_figures *figures) {
    figures->rss_after_free_bytes = ht_rss_anon_bytes(statm_fd);
    if (!server->kind || !server->kind->purge) return;
    snprintf(figures->purge_call, sizeof figures->purge_call, "%s", server->kind->purge_call);
    server->kind->purge(server);
    figures->rss_after_purge_bytes = ht_rss_anon_bytes(statm_fd);
    figures->purged = 1;
}

void ht_left_blocks_free(const uint64_t *live, uint32_t slots, void **table) {
    for (uint32_t slot = 0; slot < slots; slot++) {
        if (live[slot / 64] >> slot % 64 & 1) HT_CALL_FREE(table[slot]);
    }
}
