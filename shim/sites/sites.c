// SPDX-License-Identifier: Apache-2.0
#include "sites.h"

#include <errno.h>

#include "apart.h"
#include "clock.h"
#include "expected_stack.h"
#include "settings.h"
#include "site_log.h"
#include "stack_tree.h"
#include "stack_walk.h"
#include "sys.h"

enum {
    COMPARED_ALL_EVERY = 256,
    COMPARED_ALL_OF_UNEXPECTED = 8,
    COMPARED_ALL_AFTER_NEW = 32,
    COMPARED_ALL_AT_FIRST = 1 << 12,
    SKIPS_MAX = UINT8_MAX,
    SKIPS_OF_SHARE = 15
};

// Of a thread. With `calls_to_compare` alone the fast path knows whether to compare all of a stack.
static __thread struct {
    int32_t calls_to_compare;        // without comparing all; negative: that is due
    uint32_t full_comparisons_left;  // that are made one after the other
    uint32_t clears;                 // of the tree, until it was last searched
    // How many calls from unknown stacks are skipped after a walk in vain, and how many of these are left. A byte: if a handler
    // makes it wrap, it is soon used up.
    uint8_t skips, skips_left;
    uint8_t unsearched_left;  // calls from unexpected stacks, where walks have taken their share of the run
    struct expectation expectation;
} seen __attribute__((tls_model("initial-exec"))) = {.full_comparisons_left = COMPARED_ALL_AT_FIRST};
static struct stack_tree tree;
static atomic_flag busy = ATOMIC_FLAG_INIT;

// The state of the hook of the thread that holds the lock.
static __thread const struct thread_state *holder __attribute__((tls_model("initial-exec")));
static bool abandoned;  // its holder will never come back
// A thread that forks has the lock meanwhile. While it takes the lock or gives it back, what its signal handlers call does without:
// they would wait for their own thread.
enum { FORKS_NOT, FORKS_SOON, FORKS };
static __thread _Atomic uint8_t forks __attribute__((tls_model("initial-exec")));
static _Atomic bool anyone_forks;

// Has this thread left, by a jump out of a signal handler, the hook that took the lock? What that changed is of use: a map has
// a value before its key.
static bool was_left(const struct thread_state *t) {
    return holder && (holder == t || !is_busy(holder->gate));
}

// It is held for the change of a few maps. A thread that still cannot have it does without: its call's site stays unknown. One
// that may not wait has a lock of libgcc's, for which the holder may be waiting. A fork takes as long as the process is large:
// for that a thread waits so many steps.
static bool take(bool waits, unsigned steps_for_fork) {
    for (unsigned step = 0; atomic_flag_test_and_set_explicit(&busy, memory_order_acquire); step++) {
        if (!waits || (step >= steps_for_fork && anyone_forks)) return false;
        if (step == SYS_WAIT_STEPS) abandoned = true;
        if (abandoned || !recorder_may_call()) return false;
        sys_wait_step(step);
        recorder_has_called();
    }
    return true;
}

static bool lock(const struct thread_state *t, bool waits, unsigned steps_for_fork) {
    if (was_left(t)) return true;
    if (holder || abandoned || forks == FORKS_SOON) return false;
    if (forks != FORKS && !take(waits, steps_for_fork)) return false;
    holder = t;
    return true;
}
// For what is done seldom, and without which later calls have sites that mean nothing, or another stack.
static bool lock_to_forget(void) { return settings.site_frames && lock(&self, true, SYS_WAIT_STEPS); }
static void unlock(void) {
    holder = NULL;
    if (!forks) atomic_flag_clear_explicit(&busy, memory_order_release);
}

static struct tree_hook hook_of(const struct thread_state *t) { return tree_hook(t->stack, own_stack.end); }

struct slow_find {
    struct thread_state *t;
    bool walked;
    uint32_t site;
};

static void find_by_walk(void *argument) {
    struct slow_find *find = argument;
    struct stack_walk walk;
    find->walked = true;
    stack_walk(&walk, find->t->stack, settings.site_frames);
    stack_walk_learn(&walk, settings.site_frames);
    find->site = site_log_number(find->t, &walk);
    // The tree is of the log that is written now. A call that began before that, and ended in a forked child or after a
    // resume, has its stack in the log before.
    struct tree_hook hook = hook_of(find->t);
    if (find->t->epoch == epoch_now()) tree_insert(&tree, &hook, &walk, find->site);
}

// On a stack of our own: that of the caller may be a signal handler's, of the least size. No handler runs meanwhile, which
// would find no more of it than we leave.
static struct slow_find find_slowly(struct thread_state *t) {
    enum { STACK_BYTES = 128 << 10 };
    static char *stack;
    struct slow_find find = {.t = t};
    if (!recorder_may_call()) return find;
    int saved = errno;
    uint64_t signals = sys_block_signals();
    if (lock(t, !stack_walk_is_unwinders(hook_of(t).address), SYS_WAIT_YIELDS)) {
        uint32_t gate = t->gate;
        if (!stack) stack = site_memory(STACK_BYTES);
        uintptr_t top = (uintptr_t)stack + STACK_BYTES;
        set_gate(t, GATE_BUSY_SETUP);  // libgcc may allocate
        if (stack) call_on_stack(find_by_walk, &find, (void *)(top & ~(uintptr_t)15));
        set_gate(t, gate);
        unlock();
    }
    sys_restore_signals(signals);
    recorder_has_called();
    errno = saved;
    return find;
}

// A stack that is not known may be taken for another until all of it is compared: in a thread's first calls, in some after
// each stack that was new, as others will be, more often where another stack was expected, and now and then, at distances that
// have no period.
static uint32_t spread(const struct thread_state *t) { return (uint32_t)(t->calls * SITE_MULTIPLIER >> 32); }

static void plan_next_comparison(const struct thread_state *t) {
    seen.calls_to_compare = 0;
    if (seen.full_comparisons_left && --seen.full_comparisons_left) return;
    if (!seen.expectation.table && !expected_begin(&seen.expectation)) return;
    seen.calls_to_compare = (int32_t)(spread(t) % (2 * COMPARED_ALL_EVERY));
}

// Another thread may have cleared the tree: of the stacks that there were, most are not in it, as at first.
static bool tree_was_cleared(void) {
    uint32_t clears = atomic_load_explicit(&tree.clears, memory_order_acquire);
    if (likely(seen.clears == clears)) return false;
    seen.clears = clears;
    seen.skips = seen.skips_left = 0;
    seen.full_comparisons_left = COMPARED_ALL_AT_FIRST;
    seen.calls_to_compare = 0;
    return true;
}

// Walks may take one part in so many of the run, and what was saved up until then: the start of most programs is new stacks.
enum { WALKS_SHARE = 4 };
static struct run_share walks = {.parts = WALKS_SHARE, .saved_stamps_max = STAMPS_PER_S / 5 * WALKS_SHARE};

static struct slow_find find_and_pay(struct thread_state *t) {
    uint64_t before = clock_counter();
    struct slow_find find = find_slowly(t);
    share_pay(&walks, before, STAMPS_PER_S / 1000);
    upkeep_took(t->recording->header, before);
    return find;
}

// Appends by a walk. If there is no memory for more stacks, or there are too many, calls from new ones walk in vain: after each
// that did, about twice as many as before are skipped, whatever unknown stack they come from.
static uint32_t find_walking(struct thread_state *t) {
    uint64_t stamp = stamp_now();
    if (seen.skips_left) {
        seen.skips_left--;
        return 0;
    }
    if (share_paid_until(&walks, stamp) > stamp) {
        seen.unsearched_left = SKIPS_OF_SHARE;
        return 0;
    }
    struct slow_find find = find_and_pay(t);
    if (!find.walked) return 0;
    unsigned more = 2u * seen.skips + 1;
    seen.skips = (uint8_t)(find.site ? 0 : more < SKIPS_MAX ? more : SKIPS_MAX);
    seen.skips_left = seen.skips;
    return find.site;
}

static void note_unsited(struct thread_state *t) {
    __atomic_fetch_add(&t->recording->header->unsited_calls, 1, __ATOMIC_RELAXED);
}

// Others like it will come: all of them is compared, so that none is taken for one that is known.
static uint32_t find_new(struct thread_state *t) {
    if (seen.full_comparisons_left < COMPARED_ALL_AFTER_NEW)
        seen.full_comparisons_left = COMPARED_ALL_AFTER_NEW;
    seen.calls_to_compare = 0;
    uint32_t site = find_walking(t);
    if (!site) note_unsited(t);
    return site;
}

// Appends by all of the stack, in the tree or by a walk.
static uint32_t find_surely(struct thread_state *t) {
    struct tree_found found;
    struct tree_hook hook = hook_of(t);
    tree_was_cleared();
    uint32_t site = stack_is_own(t->stack) ? tree_find(&tree, &hook, &found) : 0;
    if (site) {
        expected_other(&seen.expectation, &found);
        return site;
    }
    return find_new(t);
}

// Finds it by the words by which stacks part alone. 0: it is not known, or all of it is to be compared.
static uint32_t find_unexpected(const struct thread_state *t) {
    struct tree_found found;
    struct tree_hook hook = hook_of(t);
    if (spread(t) < UINT32_MAX / COMPARED_ALL_OF_UNEXPECTED || tree_was_cleared()) return 0;
    uint32_t site = tree_guess(&tree, &hook, &found);
    if (site) expected_other(&seen.expectation, &found);
    return site;
}

static void append(struct thread_state *t, uint32_t site) {
    expected_after(&seen.expectation, site);
    if (seen.expectation.table) expected_fetch(&seen.expectation);
    if (site != t->site) ht_append_modifier(&t->cursor, HT_MODIFIER_SITE, site);
    t->site = site;
}

static inline void append_expected(struct thread_state *t, const struct expected_path *expected) {
    uint32_t site = expected_site(expected);
    expected_after(&seen.expectation, site);
    expected_fetch(&seen.expectation);
    ht_append_modifier_if(&t->cursor, site != t->site, expected->modifier, expected->modifier_bytes);
    t->site = site;
}

// The whole stack is to be compared, or is not the expected one.
static __attribute__((noinline)) bool append_slowly(struct thread_state *t, bool compares_all) {
    if (unlikely(seen.unsearched_left)) {
        seen.unsearched_left--;
        note_unsited(t);
        append(t, 0);
        return true;
    }
    uint32_t site = compares_all ? 0 : find_unexpected(t);
    if (!site) {
        site = find_surely(t);
        if (t->epoch != epoch_now() || !t->chunk) return false;
        if (t->cursor.at >= chunk_append_end(t) && !chunk_next(t)) return false;
    }
    append(t, site);
    return true;
}

static __attribute__((noinline)) bool append_after_all(struct thread_state *t) {
    plan_next_comparison(t);
    return append_slowly(t, true);
}

// Writes the number of the stack that the hook at work was called from, if it is not that of the stream's last allocation.
// False: recording had to stop.
static bool sites_append(struct thread_state *t) {
    if (unlikely(--seen.calls_to_compare < 0)) return append_after_all(t);
    if (unlikely(!stack_is_own(t->stack))) return append_slowly(t, true);
    struct tree_hook hook = hook_of(t);
    const struct expected_path *expected = &expected_paths[*expected_number(&seen.expectation, hook.hash)];
    if (unlikely(!tree_has_path(&tree, &expected->path, &hook))) return append_slowly(t, false);
    append_expected(t, expected);
    return true;
}

static __attribute__((noinline)) bool room_and_site(struct thread_state *t) {
    return room_for_record_slowly(t) && (!settings.site_frames || sites_append(t));
}

bool room_for_call_slowly(struct thread_state *t) {
    // Without call sites it may be entered before that: a jump out of a handler may have left one of the two addresses behind.
    if (unlikely(t->cursor.at >= t->full_or_probe_at || !settings.site_frames)) return room_and_site(t);
    return sites_append(t);
}

void sites_start(void) {
    settings.lacks_sites = settings.site_frames && !stack_walk_start();
    if (settings.lacks_sites) settings.site_frames = 0;
    if (settings.site_frames) expected_start();
}

void sites_new_thread(void) {
    if (settings.site_frames) stack_walk_new_thread();
}

void sites_new_log(void) {
    if (!lock_to_forget()) return;
    tree_clear(&tree);
    unlock();
}

void sites_give_up_space(void) {
    if (!lock_to_forget()) return;
    expected_give_up_space();
    unlock();
}

void sites_begin_fork(void) {
    if (!settings.site_frames || holder || abandoned || forks) return;
    forks = FORKS_SOON;
    bool taken = take(true, SYS_WAIT_STEPS);
    if (taken) anyone_forks = true;
    forks = taken ? FORKS : FORKS_NOT;
}

void sites_end_fork(void) {
    if (forks != FORKS) return;
    forks = FORKS_SOON;
    anyone_forks = false;
    atomic_flag_clear_explicit(&busy, memory_order_release);
    forks = FORKS_NOT;
}

void sites_after_fork(void) {
    // A fork that was not noticed may have cut off another thread's walk.
    if (!anyone_forks && atomic_flag_test_and_set(&busy)) stack_walk_unwinder_is_lost();
    holder = NULL;
    abandoned = false;
    anyone_forks = false;
    forks = FORKS_NOT;  // a child with a stack of its own does not come back to what called the kernel
    atomic_flag_clear(&busy);
    sites_new_log();
}

void sites_after_unload(void) {
    struct site_modules loaded;
    if (!settings.site_frames) return;
    site_log_find_modules(&loaded);
    if (!lock_to_forget()) return;
    if (site_log_drop_modules(&loaded)) {
        stack_walk_forget(site_log_is_gone);
        tree_clear(&tree);
    }
    unlock();
}
