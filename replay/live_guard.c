// SPDX-License-Identifier: Apache-2.0
#include "live_guard.h"

#include <errno.h>
#include <sys/resource.h>

#include "machine_memory.h"
#include "talk.h"

// The bytes that the replay makes resident at once, before anything that the allocator adds.
static uint64_t resident_peak_bytes(const struct ht_plan *plan, const struct ht_built_form *built) {
    bool all = plan->touch == HT_TOUCH_PAGES || plan->touch == HT_TOUCH_ALL ||
               plan->touch_free == HT_TOUCH_FREE_WRITE;
    if (all) return built->live_peak_bytes;
    return plan->touch == HT_TOUCH_NONE && !plan->verify ? 0 : built->touched_peak_bytes;
}

// Three quarters: allocators keep more than what is live, and the rest of the machine wants to live, too. A
// limit of address space counts the form, which every child maps.
static uint64_t usual_limit_bytes(const struct ht_built_form *built) {
    struct rlimit space;
    uint64_t bytes = ht_memory_available_bytes();
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        uint64_t left = space.rlim_cur > built->mapped_bytes ? space.rlim_cur - built->mapped_bytes : 0;
        if (left < bytes) bytes = left;
    }
    return bytes / 4 * 3;
}

int ht_live_guard(const struct ht_plan *plan, const struct ht_built_form *built, struct ht_error *error) {
    char peak[32], limit[32];
    uint64_t peak_bytes = resident_peak_bytes(plan, built) + plan->aging.bytes;
    uint64_t limit_bytes = plan->max_live_bytes ? plan->max_live_bytes : usual_limit_bytes(built);
    if (peak_bytes <= limit_bytes) return 0;
    errno = 0;
    return ht_error_system(error, plan->trace_path,
                           "its blocks%s need %s of memory at their peak, and the limit is %s%s; change it "
                           "by --max-live SIZE or none%s",
                           plan->aging.bytes ? ", with those of --age," : "",
                           ht_bytes(peak, (double)peak_bytes), ht_bytes(limit, (double)limit_bytes),
                           plan->max_live_bytes ? "" : " (three quarters of the available memory)",
                           plan->verify ? "" : ", or use --touch none, which needs no memory");
}
