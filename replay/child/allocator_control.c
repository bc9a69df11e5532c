// SPDX-License-Identifier: Apache-2.0
#include "allocator_control.h"

#include "server.h"

void ht_purge_if_due(struct ht_purging *purging) {
    uint64_t now_ns = atomic_load(purging->now_ns), due_ns = atomic_load(&purging->next_ns);
    if (now_ns < due_ns) return;
    if (!atomic_compare_exchange_strong(&purging->next_ns, &due_ns, now_ns + purging->every_ns)) return;
    purging->server->kind->purge(purging->server);
}

void ht_obeyed_find(struct ht_obeyed *obeyed, const struct ht_server *server) {
    static const char *const names[HT_STEERS] = {
        [HT_STEER_MALLOPT] = "mallopt", [HT_STEER_TRIM] = "malloc_trim"};
    const char *obeys = server->kind ? server->kind->obeys : NULL;
    for (unsigned i = 0; i < HT_STEERS; i++)
        obeyed->function[i] = ht_fits_any(obeys, names[i]) ? ht_server_function(names[i]) : NULL;
}

void ht_obey(const struct ht_obeyed *obeyed, const uint64_t *word) {
    enum ht_steer steer = (enum ht_steer)word[1];
    void *function = obeyed->function[steer];
    if (!function) return;
    switch (steer) {
    case HT_STEER_MALLOPT: ((int (*)(int, int))function)((int)word[2], (int)word[3]); break;
    case HT_STEER_TRIM: ((int (*)(size_t))function)((size_t)word[3]); break;
    case HT_STEERS: break;
    }
}
