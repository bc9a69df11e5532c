// SPDX-License-Identifier: Apache-2.0
// Which functions operator new and delete are in this process, and those that free a block of a size that the caller
// names.
#ifndef HEAPTAPE_OPERATORS_H
#define HEAPTAPE_OPERATORS_H

#include "replay_lane.h"
#include "server.h"

// as_program: those that a program would call, of the allocator or of the C++ library, which is loaded for them, with
// allocations of its own. They end in lane->without_memory where there is no memory. Else those of the allocator that
// its kind's catalogue file says it has, new as the form that returns NULL then.
struct ht_operators ht_operators_find(const struct ht_server *server, bool as_program);

// Whether operator new is malloc for want of a C++ library.
bool ht_operators_lacking(const struct ht_operators *operators);

#endif
