// SPDX-License-Identifier: Apache-2.0
#include "thread_states.h"

#include <sys/auxv.h>

#include "chunks.h"
#include "context.h"
#include "older_libc.h"
#include "real.h"
#include "sys.h"

enum { NESTED_DEPTH_MAX = 32 };

// ---- tasks that share a thread's storage ----

// In memory of its own; never given back.
struct state_of_task {
    struct thread_state state;
    uint32_t tid;
    struct state_of_task *next;
};

// States are listed by the task's number, since a process may make thousands, and the first is looked for the longest.
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

// Finds that of the calling task, if the thread's own gate is GATE_SHARED. NULL: it cannot be had.
static struct thread_state *shared_storage_state(void) {
    if (!recorder_may_call()) return NULL;
    uint32_t tid = sys_gettid();
    struct state_of_task *found = atomic_load(&lists[tid % LISTS]);
    while (found && found->tid != tid) found = found->next;
    if (!found) found = add(tid);
    recorder_has_called();
    return found ? &found->state : NULL;
}

// The caller's stream goes on in its state. If a handler interrupted a hook, that has to find the state where it was.
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

// ---- signal handlers ----

// Nested states that ended threads have left, linked by `nested`.
static struct thread_state *_Atomic spare_states;

void spare_states_take(struct thread_state *chain) {
    struct thread_state *last = chain;
    if (!chain) return;
    while (last->nested) last = last->nested;
    last->nested = atomic_load(&spare_states);
    while (!atomic_compare_exchange_weak(&spare_states, &last->nested, chain)) continue;
}

// All are taken and the rest is put back: a thread that comes meanwhile finds none, and makes one.
static struct thread_state *take_spare(void) {
    struct thread_state *first = atomic_exchange(&spare_states, NULL);
    if (!first) return NULL;
    spare_states_take(first->nested);
    *first = (struct thread_state){.gate = GATE_FRESH};
    return first;
}

// The state for a signal handler's calls, in a hook that it interrupted: those of `t` and all that it nests
// in are busy. It has a stream of its own, so that the interrupted append stays whole.
static struct thread_state *nested_state(struct thread_state *t) {
    if (!t->nested) t->nested = take_spare();
    if (t->nested || !recorder_may_call()) return t->nested;
    struct thread_state *fresh = sys_map_memory(sizeof *fresh);
    recorder_has_called();
    if (!fresh) return NULL;
    fresh->gate = GATE_FRESH;
    t->nested = fresh;
    return fresh;
}

// Is that on the thread's own stack? Only there do addresses tell who has called whom: coroutines, which a handler may switch
// in the midst of a hook, have others.
static bool is_on_own_stack(bool is_main, uintptr_t at) {
    enum {
        MAIN_BYTES = 128 << 20,
        THREAD_BYTES = 8 << 20
    };  // the kernel maps nothing else there; the usual size
    uintptr_t top = is_main ? getauxval(AT_EXECFN) : (uintptr_t)__builtin_thread_pointer();
    return top - at < (is_main ? MAIN_BYTES : THREAD_BYTES);
}

// Then a switch between two instructions that belong together may spoil a chunk, which a reader should have a reason for.
static void note_switched_stacks(struct recording *recording) {
    static struct recording *_Atomic noted;
    struct text text;
    if (!recording || noted == recording || !epoch_page.maps_log || epoch_now() != recording->epoch ||
        !context_begin_string(recording->header, &text))
        return;
    noted = recording;
    text_string(&text, "switched_stacks=1");
    context_end_string(recording->header, &text, true);
}

// Has the hook at work in this state been left by a jump out of a signal handler? Then we are no deeper in
// the stack than it was: unless this is another stack. A handler's own stack may be disarmed while it runs
// (SS_AUTODISARM) and appear as none; then only what is near passes for the same.
static bool is_abandoned(const struct thread_state *t, uintptr_t stack) {
    enum { NEAR_BYTES = 64 << 10 };
    stack_t other;
    if (likely(stack < t->stack) || !recorder_may_call()) return false;
    bool known = !raw_syscall(SYS_sigaltstack, 0, (long)&other, 0, 0, 0, 0);
    bool is_main = sys_gettid() == sys_getpid();
    recorder_has_called();
    if (!known || (other.ss_flags & SS_ONSTACK)) return false;
    if (stack - t->stack < NEAR_BYTES) return true;
    bool own = is_on_own_stack(is_main, stack);
    if (!own) note_switched_stacks(recorder_current());
    return own && !(other.ss_flags & SS_DISABLE) && is_on_own_stack(is_main, t->stack);
}

// The state is as good as new, except the chunk, whose last record may be half written.
static void restore_abandoned(struct thread_state *t) {
    for (struct thread_state *inner = t->nested; inner; inner = inner->nested) {
        inner->gate = GATE_FRESH;
        inner->epoch = EPOCH_NONE;  // a new stream: its chunk may end in half a record as well
    }
    // A jump in between would leave set-up, within which nothing is recorded.
    bool calls = recorder_may_call();
    uint64_t signals = calls ? sys_block_signals() : 0;
    set_gate(t, GATE_BUSY_SETUP);
    bool whole = t->recording && t->epoch == epoch_now() && chunk_next_after_jump(t);
    if (!whole) t->epoch = EPOCH_NONE;
    set_gate(t, whole ? gate_of(t->epoch) : GATE_FRESH);
    if (!calls) return;
    sys_restore_signals(signals);
    recorder_has_called();
}

// Is the call of a hook made by the allocator that serves this state's call? A linked-in one's come from no further up
// the stack than the call itself: what does, comes after a jump out of it.
static bool is_allocators_own(const struct thread_state *t, const void *caller, uintptr_t stack) {
    if (!caller) return false;
    return t->gate == GATE_BUSY_LINKED ? stack <= t->stack
                                       : t->gate == GATE_BUSY_REAL && real_calls_from(caller);
}

// The allocator's is recognized first: a handler's call that came between a hook's note of its stack and the
// closing of its gate leaves its own stack there, by which the hook would appear abandoned to the calls
// within it.
struct thread_state *idle_state(const void *caller, uintptr_t stack, struct thread_state **outer) {
    struct thread_state *t = unlikely(self.gate == GATE_SHARED) ? shared_storage_state() : &self;
    *outer = NULL;
    for (unsigned depth = 0; t && is_busy(t->gate); depth++) {
        struct thread_state *inner = t->nested;
        bool innermost = !inner || !is_busy(inner->gate);
        if (innermost && is_allocators_own(t, caller, stack)) return NULL;
        if (is_abandoned(t, stack)) {
            restore_abandoned(t);
            return t;
        }
        if (t->gate == GATE_BUSY_SETUP || depth == NESTED_DEPTH_MAX) return NULL;
        *outer = t;
        t = nested_state(t);
    }
    return t;
}
