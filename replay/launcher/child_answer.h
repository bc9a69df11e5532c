// SPDX-License-Identifier: Apache-2.0
// What a measured child reports of itself, taken out of the memory that it shares with the launcher. Its
// allocator may have written anything there.
#ifndef HEAPTAPE_CHILD_ANSWER_H
#define HEAPTAPE_CHILD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

#include "replay_job.h"

struct ht_built_form;

// Makes the launcher's copy of an answer safe to use: strings end and are text, numbers of rows fit their
// tables, and rows name samples that there are. job: as it was asked; built: NULL where the child was only described.
// high_bytes: of a memory pass, by sample.
// False, with problem: what the answer says cannot be, so none of it counts.
bool ht_child_answer_check(struct ht_exchange *answer, const struct ht_job *job,
                           const struct ht_built_form *built, const uint64_t *rss_bytes,
                           const uint64_t *high_bytes, char *problem, size_t room);

#endif
