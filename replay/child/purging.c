// SPDX-License-Identifier: Apache-2.0
#include "purging.h"

void ht_purge_if_due(struct ht_purging *purging) {
    uint64_t now_ns = atomic_load(purging->now_ns), due_ns = atomic_load(&purging->next_ns);
    if (now_ns < due_ns) return;
    if (!atomic_compare_exchange_strong(&purging->next_ns, &due_ns, now_ns + purging->every_ns)) return;
    purging->server->kind->purge(purging->server);
}
