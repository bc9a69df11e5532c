#include <stddef.h>

#include "self_report.h"

typedef int mallctl_function(const char *name, void *value, size_t *value_bytes, void *set, size_t set_bytes);

static const char *const names[] = {"allocated_bytes",
                                    "active_bytes",
                                    "metadata_bytes",
                                    "resident_bytes",
                                    "mapped_bytes",
                                    "retained_bytes",
                                    NULL};

static void read_values(void *known, uint64_t *values) {
    static const char *const asked[] = {"stats.allocated", "stats.active", "stats.metadata",
                                        "stats.resident",  "stats.mapped", "stats.retained"};
    mallctl_function *mallctl = (mallctl_function *)known;
    uint64_t epoch = 1;  // what is told is as of the last epoch
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        size_t value = 0, bytes = sizeof value;
        values[i] = mallctl(asked[i], &value, &bytes, NULL, 0) ? HT_FIGURE_UNKNOWN : value;
    }
}

static void purge(void *known) {
    ((mallctl_function *)known)("arena.4096.purge", NULL, NULL, NULL, 0);  // MALLCTL_ARENAS_ALL
}

const struct ht_self_report ht_report_jemalloc = {.known_by = "mallctl",
                                                  .names = names,
                                                  .read = read_values,
                                                  .purge_call = "arena.<all>.purge",
                                                  .purge = purge};
