// What the numbers of call sites mean: records of modules and sites in the log (docs/reference/raw-log-format.md).
#ifndef HEAPTAPE_SITE_LOG_H
#define HEAPTAPE_SITE_LOG_H

#include "stack_walk.h"
#include "state.h"

// The number of this stack; 0: there are too many, or recording had to stop. Where it is new to the thread's log, that gets a
// record first. By one thread at a time.
HIDDEN uint32_t site_log_number(struct thread_state *t, const struct stack_walk *walk);

// Forgets the modules that are no longer there, and what is known of their code. *gone: is the address in one of them?
HIDDEN bool site_log_drop_modules(void);
HIDDEN bool site_log_is_gone(uint64_t address, uint64_t value);

#endif
