// SPDX-License-Identifier: Apache-2.0
// What a raw log's records do to the heap, one by one.
#ifndef HEAPTAPE_MERGE_RECORDS_H
#define HEAPTAPE_MERGE_RECORDS_H

#include "merge_inside.h"

// BLOCKED: another stream's record must come first, and the input waits for it. HELD: whether that is so, a growing log does
// not show yet. KEPT: the record is a free that was overtaken, and is applied later.
enum merge_applied { APPLIED, BLOCKED, HELD, KEPT, NO_MEMORY, BAD_ORDER, BAD_SITE };

// Applies the input's next record. force: waiting is over, it is taken as it is.
enum merge_applied merge_apply(struct merge *m, uint32_t number, const struct ht_raw_record *record,
                               bool force);

// A malloc or free of a small block without modifiers, while nobody waits or watches: nearly all of a log.
// False: it is no such case, and nothing has been done.
bool merge_apply_common(struct merge *m, const struct input *input, const struct ht_raw_record *record);

// Applies the oldest of the overtaken frees as it is: nobody has allocated its block.
enum merge_applied merge_force_overtaken(struct merge *m);

// The thread of an input that is about to have its first event: not before, because threads are numbered by
// it, and a record that waits may come after others'. The streams of one thread share it. False for want of
// memory.
bool merge_know_thread(struct merge *m, struct input *input, uint64_t stamp);

// A process that was killed inside a realloc, or a jump that left it, leaves its first half: the block is as
// it was.
void merge_drop_open_realloc(struct merge *m, struct input *input);

#endif
