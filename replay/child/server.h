// SPDX-License-Identifier: Apache-2.0
// Which object has malloc in this process, and of which kind it is.
#ifndef HEAPTAPE_SERVER_H
#define HEAPTAPE_SERVER_H

#include "allocator.h"
#include "replay_lane.h"

// Tries the likely kind, if it is not NULL, and for all others if any may be it. To search a name that is
// not there may allocate.
struct ht_server ht_server_find(const struct ht_allocator *likely, bool any);

// The function of this name, if it comes from the object that has malloc.
void *ht_server_function(const char *name);

#endif
