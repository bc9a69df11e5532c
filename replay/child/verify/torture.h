// SPDX-License-Identifier: Apache-2.0
// Calls of our own that every allocator has to stand, in parts that bring out one kind of fault each. A trace has what one
// program calls: this has what others will.
#ifndef HEAPTAPE_TORTURE_H
#define HEAPTAPE_TORTURE_H

#include <stdbool.h>

#include "replay_job.h"

// own: a function of the allocator's library by name, NULL if it has none. False: there is no memory for it, errno says why.
bool ht_torture_run(const struct ht_job *job, void *(*own)(const char *name),
                    struct ht_verify_findings *findings);

#endif
