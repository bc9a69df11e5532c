// SPDX-License-Identifier: Apache-2.0
#include "shared_storage.h"

#include "sys.h"

// In memory of its own; never given back.
struct state_of_task {
    struct thread_state state;
    uint32_t tid;
    struct state_of_task *next;
};

// By the task's number, since a process may make thousands, and the first is looked for the longest.
enum { LISTS = 256 };
static struct state_of_task *_Atomic lists[LISTS];

static struct state_of_task *add(uint32_t tid) {
    struct state_of_task *added = sys_map_memory(sizeof *added);
    if (!added) return NULL;
    struct state_of_task *_Atomic *list = &lists[tid % LISTS];
    added->tid = tid;
    added->next = atomic_load(list);
    while (!atomic_compare_exchange_weak(list, &added->next, added)) continue;
    return added;
}

struct thread_state *shared_storage_state(void) {
    if (!recorder_may_call()) return NULL;
    uint32_t tid = sys_gettid();
    struct state_of_task *found = atomic_load(&lists[tid % LISTS]);
    while (found && found->tid != tid) found = found->next;
    if (!found) found = add(tid);
    recorder_has_called();
    return found ? &found->state : NULL;
}

// The caller's stream goes on in its state. Where a handler interrupted a hook, that has to find the state where it was.
void recorder_shares_storage(void) {
    if (self.gate == GATE_SHARED || is_busy(self.gate) || !recorder_may_call()) return;
    uint64_t signals = sys_block_signals();
    struct state_of_task *own = add(sys_gettid());
    if (own) {
        own->state = self;
        set_gate(&self, GATE_SHARED);
    }
    sys_restore_signals(signals);
    recorder_has_called();
}
