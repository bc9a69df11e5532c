// Which object has malloc in this process, and of which kind it is.
#ifndef HEAPTAPE_SERVER_H
#define HEAPTAPE_SERVER_H

#include "allocator.h"
#include "replay_lane.h"

// Tries the likely kind, if it is not NULL, and for all others if any may be it. To search a name that is
// not there may allocate.
struct ht_server ht_server_find(const struct ht_allocator *likely, bool any);

// Its functions that free a block of a size that the caller names, which its kind's catalogue file says it has.
struct ht_sized_frees ht_sized_frees_find(const struct ht_server *server);

#endif
