// SPDX-License-Identifier: Apache-2.0
// heaptape replay --list: what is built, and with --verbose or --json all that the catalogue knows of each kind.
#ifndef HEAPTAPE_ALLOCATOR_LIST_H
#define HEAPTAPE_ALLOCATOR_LIST_H

#include "replay_options.h"
#include "runner.h"

// Lists those that --alloc names; by default all that are built, all that the user has added and, with --verbose or --json, those of the
// catalogue that are not. With a trace: as they are replayed with it, with the settings of the recorded program. Returns an exit status.
int ht_allocator_list(struct ht_runner *runner, struct ht_replay_options *options);

#endif
