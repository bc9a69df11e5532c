// SPDX-License-Identifier: Apache-2.0
#include "state.h"

#include <sys/prctl.h>

#include "sys.h"

// A filter takes longer to come than this.
static const uint64_t ASK_GAP_STAMPS = STAMPS_PER_S / 50000;

_Alignas(4096) struct epoch_page epoch_page;
__thread struct thread_state self __attribute__((tls_model("initial-exec")));
static struct recording *_Atomic current;

struct recording *recorder_current(void) { return atomic_load_explicit(&current, memory_order_acquire); }

void recorder_set_current(struct recording *recording) {
    atomic_store_explicit(&current, recording, memory_order_release);
}

_Atomic bool recorder_sealed;
_Atomic uint32_t recorder_callers, recorder_holders;
static bool asks_for_filters;
static __thread uint64_t asked_stamp __attribute__((tls_model("initial-exec")));

// Under a filter from before the start, as in containers, the answer is the same after another one has come.
void recorder_ask_for_filters(void) { asks_for_filters = sys_prctl(PR_GET_SECCOMP, NULL) == 0; }

// Nothing can be prepared any more: threads fill the chunks that they have.
static void seal_late(void) {
    struct recording *recording = recorder_current();
    // A forked child has not its parent's log.
    if (recording && epoch_page.maps_log)
        recording->real_bytes = __atomic_load_n(&recording->header->chunks_end, __ATOMIC_SEQ_CST);
    atomic_fetch_add(&recorder_holders, 1);
    atomic_store(&recorder_sealed, true);
}

// Are system calls forbidden? The kernel is asked, too, where that can be.
static bool is_forbidden(void) {
    if (unlikely(recorder_sealed)) return true;
    if (!asks_for_filters) return false;
    uint64_t now = stamp_now();
    if (now - asked_stamp < ASK_GAP_STAMPS) return false;
    asked_stamp = now;
    if (sys_prctl(PR_GET_SECCOMP, NULL) <= 0) return false;
    seal_late();
    return true;
}

bool recorder_may_call(void) {
    atomic_fetch_add(&recorder_callers, 1);
    if (likely(!is_forbidden())) return true;
    recorder_has_called();
    return false;
}

void recorder_has_called(void) { atomic_fetch_sub(&recorder_callers, 1); }

bool recorder_is_borrowed(void) {
    const struct recording *recording = recorder_current();
    uint32_t epoch = epoch_now();
    // A forked child's page reads EPOCH_NONE.
    return recording && (epoch == recording->epoch || epoch == EPOCH_PAUSED) && !is_forbidden() &&
           recording->pid != sys_getpid();
}
