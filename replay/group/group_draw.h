// SPDX-License-Identifier: Apache-2.0
// One draw of what the program wrote, as a plan that processes follow.
#ifndef HEAPTAPE_GROUP_DRAW_H
#define HEAPTAPE_GROUP_DRAW_H

#include "group_program.h"

// given: nothing is drawn, a file says it (ht_group_given).
enum ht_drawn { HT_DRAWN_NOTHING, HT_DRAWN_APART, HT_DRAWN_TOGETHER, HT_DRAWN_GIVEN, HT_DRAWN_KINDS };
extern const char *const ht_drawn_names[HT_DRAWN_KINDS];

// A file in the environment's HEAPTAPE_WRITTEN says what was written by the last moment, for tests with programs that know it:
// lines of a pid, the size of an inherited block, its number among those of that size in the order of birth, and an offset in
// it. NULL: there is none.
const char *ht_group_given(void);

struct ht_group_writes {
    struct ht_group_write **write;  // by part, in the order of meetings
    uint32_t *count;
    uint64_t parts_written;  // in all processes
};

// Returns 0, or -1 with error; to be freed in any case.
int ht_group_draw(const struct ht_group_program *program, enum ht_drawn drawn, uint64_t seed,
                  struct ht_group_writes *writes, struct ht_error *error);
void ht_group_writes_free(const struct ht_group_program *program, struct ht_group_writes *writes);

// The plan of a root and its descendants in memory that they will map. NULL with error.
struct ht_group_plan *ht_group_plan_make(const struct ht_group_program *program, uint32_t root,
                                         const struct ht_group_writes *writes, int launcher_fd, int *fd,
                                         struct ht_error *error);

#endif
