// SPDX-License-Identifier: Apache-2.0
// Whether replays get transparent huge pages: as the system has it, or as --thp says and the kernel lets us.
#ifndef HEAPTAPE_HUGE_PAGES_H
#define HEAPTAPE_HUGE_PAGES_H

#include <stdbool.h>
#include <stddef.h>

enum ht_thp { HT_THP_AS_IS, HT_THP_NEVER, HT_THP_MADVISE, HT_THP_ALWAYS, HT_THPS };
extern const char *const ht_thp_names[HT_THPS];

// What a child asks of prctl(PR_SET_THP_DISABLE) before it becomes the replayer.
enum ht_thp_disable { HT_THP_DISABLE_NOT, HT_THP_DISABLE_ALL, HT_THP_DISABLE_EXCEPT_ADVISED };

struct ht_huge_pages {
    char mode[64];  // in force in replays: always, madvise or never; empty if not known
    enum ht_thp_disable disable;
};

// system: the kernel's mode, inherited: what this process was started with, as PR_GET_THP_DISABLE reports it;
// can_except: whether prctl takes HT_THP_DISABLE_EXCEPT_ADVISED. False, with what to do about it, if that
// cannot be had.
bool ht_huge_pages_choose(enum ht_thp asked, const char *system, int inherited, bool can_except,
                          struct ht_huge_pages *chosen, char *problem, size_t room);

// Does the same for this process, on this machine.
bool ht_huge_pages_here(enum ht_thp asked, const char *system, struct ht_huge_pages *chosen, char *problem,
                        size_t room);

// Disables them for this process and what it becomes. Returns 0, or -1 with errno.
int ht_huge_pages_disable(enum ht_thp_disable disable);

#endif
