// SPDX-License-Identifier: Apache-2.0
#include "after_replay.h"

#include <stdio.h>

#include "memory_residency.h"
#include "rss_probe.h"

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
