// SPDX-License-Identifier: Apache-2.0
// How much memory this process and its children can still have.
#ifndef HEAPTAPE_MACHINE_MEMORY_H
#define HEAPTAPE_MACHINE_MEMORY_H

#include <stdint.h>

// The least of: what the machine has available, what our control groups (version 1 or 2, and all above them)
// leave of their limits, and RLIMIT_AS. UINT64_MAX if none of it is known.
uint64_t ht_memory_available_bytes(void);

#endif
