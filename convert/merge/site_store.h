// SPDX-License-Identifier: Apache-2.0
// Gathered call sites as bytes, for a file in which one process leaves them to another: what a follower's state and what a
// child inherits.
#ifndef HEAPTAPE_SITE_STORE_H
#define HEAPTAPE_SITE_STORE_H

#include "site_collector.h"

struct site_store {
    uint8_t *bytes;
    size_t count, room;
};

// To be freed by the caller; no bytes where nothing was gathered. False for want of memory.
bool site_store_make(struct site_store *store, const struct site_collector *collector);
void site_store_free(struct site_store *store);

// Fills an empty collector. False where the bytes are none that were made here, or for want of memory.
bool site_store_restore(const uint8_t *bytes, size_t count, struct site_collector *collector);

#endif
