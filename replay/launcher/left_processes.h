// SPDX-License-Identifier: Apache-2.0
// Processes that a measured child starts and leaves behind. They would take time from the runs after it, and write into the
// memory that all runs share.
#ifndef HEAPTAPE_LEFT_PROCESSES_H
#define HEAPTAPE_LEFT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// From now on processes that our children leave behind become ours. False if not: where we had children before,
// which our parent may need, we could not separate theirs from those.
// spared: a child of ours that has children of its own and keeps them, 0: none.
bool ht_left_processes_adopt(pid_t spared);

// Ends all our children but the spared one; only after ht_left_processes_adopt(). Returns how many were left, including those that
// had ended meanwhile.
uint32_t ht_left_processes_end(pid_t spared);

#endif
