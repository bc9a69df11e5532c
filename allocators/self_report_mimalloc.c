#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "self_report.h"

static const char *const names[] = {"committed_bytes", "committed_peak_bytes", NULL};

// Its statistics of blocks are kept by debug builds only, and what it says of residency is the kernel's.
static void read_values(void *known, uint64_t *values) {
    typedef void info_function(size_t * elapsed, size_t * user, size_t * system, size_t * rss,
                               size_t * rss_peak, size_t * commit, size_t * commit_peak, size_t * faults);
    size_t commit = 0, peak = 0;
    ((info_function *)known)(NULL, NULL, NULL, NULL, NULL, &commit, &peak, NULL);
    values[0] = commit;
    values[1] = peak;
}

static void purge(void *known) {
    (void)known;
    void (*collect)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "mi_collect");
    if (collect) collect(true);
}

const struct ht_self_report ht_report_mimalloc = {.known_by = "mi_process_info",
                                                  .names = names,
                                                  .read = read_values,
                                                  .purge_call = "mi_collect(true)",
                                                  .purge = purge};
