// SPDX-License-Identifier: Apache-2.0
// Which object has malloc in this process, and proof of it; and which functions operator new and delete are.
#ifndef HEAPTAPE_SERVER_H
#define HEAPTAPE_SERVER_H

#include <stdbool.h>

#include "allocator.h"
#include "replay_job.h"
#include "replay_lane.h"

// Tries the likely kind, if it is not NULL, and for all others if any may be it. To search a name that is
// not there may allocate.
struct ht_server ht_server_find(const struct ht_allocator *likely, bool any);

// The function of this name, if it comes from the object that has malloc.
void *ht_server_function(const char *name);

// Proof of which library the calls reach: every function that the engine calls must resolve into one object,
// and that object must be the intended one. A preload or link that silently fell back to libc must never give
// figures.

// Fills outcome's path and build_id, and its message if the proof fails. kind: whose object is intended; a
// preloaded one is known by the job's device and inode instead. Where the job names a C library, it must be
// the process's, whichever library has it.
bool ht_service_proof(const struct ht_job *job, const struct ht_allocator *kind, struct ht_outcome *outcome);

// as_program: those that a program would call, of the allocator or of the C++ library, which is loaded for them, with
// allocations of its own. They end in lane->without_memory where there is no memory. Else those of the allocator that
// its kind's catalogue file says it has, new as the form that returns NULL then.
struct ht_operators ht_operators_find(const struct ht_server *server, bool as_program);

// Whether operator new is malloc for want of a C++ library.
bool ht_operators_lacking(const struct ht_operators *operators);

// What an operator new does that finds no memory: it ends in lane->without_memory, since what it would throw goes
// through C code to nobody.

// Once, where operator new is called as a program does.
void ht_new_guard_prepare(void);

// The lane that this thread replays from now on, or NULL.
void ht_new_guard(struct ht_lane *lane);

#endif
