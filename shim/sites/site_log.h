// SPDX-License-Identifier: Apache-2.0
// What the numbers of call sites mean: records of modules and sites in the log (docs/reference/raw-log-format.md).
#ifndef HEAPTAPE_SITE_LOG_H
#define HEAPTAPE_SITE_LOG_H

#include "stack_walk.h"
#include "state.h"

// The number of this stack; 0: there are too many, or recording had to stop. If it is new to the thread's log, that gets a
// record first. Only one thread at a time may call it.
HIDDEN uint32_t site_log_number(struct thread_state *t, const struct stack_walk *walk);

// The modules that are still loaded. Takes the loader's lock, and so is called without ours.
struct site_modules {
    uint32_t count;
    uint8_t present[512];  // a bit each
};
HIDDEN void site_log_find_modules(struct site_modules *loaded);
// Forgets the others, and what is known of their code. True if there were any. Only one thread at a time may call it.
HIDDEN bool site_log_drop_modules(const struct site_modules *loaded);
// Is the address in a module that is gone?
HIDDEN bool site_log_is_gone(uint64_t address, uint64_t value);

#endif
