// SPDX-License-Identifier: Apache-2.0
#include "huge_pages.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#ifndef PR_THP_DISABLE_EXCEPT_ADVISED
#define PR_THP_DISABLE_EXCEPT_ADVISED (1 << 1)  // Linux 6.18
#endif

const char *const ht_thp_names[HT_THPS] = {"", "never", "madvise", "always"};

// What comes of the system's mode in a process that was started with some or all of it disabled.
static enum ht_thp in_force(const char *system, int inherited) {
    enum ht_thp mode = HT_THP_AS_IS;  // not known: kernels without huge pages have no such file
    for (int i = HT_THP_NEVER; i < HT_THPS; i++) {
        if (!strcmp(system, ht_thp_names[i])) mode = (enum ht_thp)i;
    }
    if (mode == HT_THP_AS_IS || inherited <= 0) return mode;
    if (!(inherited & PR_THP_DISABLE_EXCEPT_ADVISED)) return HT_THP_NEVER;
    return mode == HT_THP_ALWAYS ? HT_THP_MADVISE : mode;
}

bool ht_huge_pages_choose(enum ht_thp asked, const char *system, int inherited, bool can_except,
                          struct ht_huge_pages *chosen, char *problem, size_t room) {
    enum ht_thp has = in_force(system, inherited), becomes = asked == HT_THP_AS_IS ? has : asked;
    *chosen = (struct ht_huge_pages){.disable = HT_THP_DISABLE_NOT};
    snprintf(chosen->mode, sizeof chosen->mode, "%s", ht_thp_names[becomes]);
    if (becomes == has) return true;
    if (asked == HT_THP_NEVER) {
        chosen->disable = HT_THP_DISABLE_ALL;
        return true;
    }
    bool less = asked == HT_THP_MADVISE && has == HT_THP_ALWAYS;
    if (less && can_except) {
        chosen->disable = HT_THP_DISABLE_EXCEPT_ADVISED;
        return true;
    }
    if (has != HT_THP_AS_IS && strcmp(system, ht_thp_names[asked]) == 0) {
        snprintf(problem, room,
                 "--thp %s: the parent process disabled huge pages for this process (PR_SET_THP_DISABLE)",
                 ht_thp_names[asked]);
        return false;
    }
    snprintf(problem, room,
             "--thp %s: transparent huge pages are \"%s\" here%s; as root: echo %s > "
             "/sys/kernel/mm/transparent_hugepage/enabled",
             ht_thp_names[asked], *system ? system : "not there",
             less ? ", and only Linux 6.18 and later can restrict them for one process" : "",
             ht_thp_names[asked]);
    return false;
}

// Tried on this process for a moment, which is not measured.
static bool can_except_advised(void) {
    if (prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) != 0) return false;
    if (prctl(PR_SET_THP_DISABLE, 1, PR_THP_DISABLE_EXCEPT_ADVISED, 0, 0)) return false;
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    return true;
}

bool ht_huge_pages_here(enum ht_thp asked, const char *system, struct ht_huge_pages *chosen, char *problem,
                        size_t room) {
    int inherited = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
    return ht_huge_pages_choose(asked, system, inherited, can_except_advised(), chosen, problem, room);
}

int ht_huge_pages_disable(enum ht_thp_disable disable) {
    if (disable == HT_THP_DISABLE_NOT) return 0;
    unsigned long flags = disable == HT_THP_DISABLE_EXCEPT_ADVISED ? PR_THP_DISABLE_EXCEPT_ADVISED : 0;
    return prctl(PR_SET_THP_DISABLE, 1, flags, 0, 0);
}
