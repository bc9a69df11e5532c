#include <malloc.h>

#include "self_report.h"

static const char *const names[] = {"arena_bytes", "mmapped_bytes", "in_use_bytes",
                                    "free_bytes",  "top_bytes",     NULL};

static void read_values(void *known, uint64_t *values) {
    struct mallinfo2 info = ((struct mallinfo2(*)(void))known)();
    values[0] = info.arena;
    values[1] = info.hblkhd;
    values[2] = info.uordblks;
    values[3] = info.fordblks;
    values[4] = info.keepcost;
}

static void purge(void *known) {
    (void)known;
    malloc_trim(0);
}

const struct ht_self_report ht_report_glibc = {.known_by = "mallinfo2",
                                               .names = names,
                                               .read = read_values,
                                               .purge_call = "malloc_trim(0)",
                                               .purge = purge};
