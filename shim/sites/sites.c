#include "sites.h"

#include <errno.h>

#include "call_on_stack.h"
#include "settings.h"
#include "site_log.h"
#include "site_map.h"
#include "stack_walk.h"
#include "sys.h"

enum { COMPARED_MOSTLY = 3, COMPARED_ALL_EVERY = 8, COMPARED_ALL_AFTER_NEW = 1000 };

// Part of a stack that some site has: the frames that all stacks of this key share from here on, and what comes then. One
// that is read is never changed, nor is its memory used again.
struct node {
    uint32_t
        branch;  // where the word lies by which they part, from the key's cfa on; 0: they do not part any more
    uint32_t site;   // then their number
    uint32_t reach;  // the end of the last word that is read
    uint32_t frames;
    struct {
        uint32_t place, low;  // where a return address lies, and its low half
    } frame[];
};

static __thread uint32_t new_stacks_left __attribute__((tls_model("initial-exec")));
static struct site_map keys;  // key of a hook, or of a node and the word behind it -> struct node
static atomic_flag busy = ATOMIC_FLAG_INIT;

// Of the thread that holds the lock: the state of its hook.
static __thread const struct thread_state *holder __attribute__((tls_model("initial-exec")));
static bool abandoned;  // its holder will never come back

// Has this thread left, by a jump out of a signal handler, the hook that took the lock? What that changed is of use: a map has
// a value before its key.
static bool was_left(const struct thread_state *t) {
    return holder && (holder == t || !is_busy(holder->gate));
}

// It is held for the change of a few maps. A thread that still can't have it does without: its call's site stays unknown.
static bool lock(const struct thread_state *t) {
    if (was_left(t)) return true;
    if (holder || abandoned) return false;
    for (unsigned step = 0; atomic_flag_test_and_set_explicit(&busy, memory_order_acquire); step++) {
        if (step == SYS_WAIT_STEPS) abandoned = true;
        if (abandoned || !recorder_may_call()) return false;
        sys_wait_step(step);
        recorder_has_called();
    }
    holder = t;
    return true;
}
static void unlock(void) {
    holder = NULL;
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

// All threads that libc made have their stack at the same distance from what it knows of them.
static uint64_t key_of(uintptr_t cfa) {
    return site_mix(((const uintptr_t *)cfa)[-1], (uintptr_t)__builtin_thread_pointer() - cfa);
}
static uint64_t key_behind(const struct node *node, uint32_t low) { return site_mix((uintptr_t)node, low); }

static uint32_t word_at(uintptr_t cfa, uint32_t place) { return *(const volatile uint32_t *)(cfa + place); }

// 0: it is not in the cache. So many frames are compared, those nearest to the hook first.
HT_ALWAYS_INLINE uint32_t find(uintptr_t cfa, uintptr_t end, uint32_t compared) {
    for (uint64_t key = key_of(cfa);;) {
        const struct node *node = (const struct node *)(uintptr_t)site_map_get(&keys, key);
        if (unlikely(!node || node->reach > end - cfa)) return 0;
        uint32_t frames = node->frames < compared ? node->frames : compared;
        for (uint32_t i = 0; i < frames; i++)
            if (unlikely(word_at(cfa, node->frame[i].place) != node->frame[i].low)) return 0;
        if (likely(!node->branch)) return node->site;
        compared -= frames;
        key = key_behind(node, word_at(cfa, node->branch));
    }
}

static struct node *new_node(uint32_t frames) {
    struct node *node = site_memory(sizeof *node + frames * sizeof *node->frame);
    if (node) node->frames = frames;
    return node;
}

static uint32_t place_of(const struct stack_walk *walk, uint32_t i) {
    return (uint32_t)(walk->frame[i].cfa - walk->frame[0].cfa - 8);
}

// The node of the stack's frames from `from` on.
static struct node *new_leaf(const struct stack_walk *walk, uint32_t from, uint32_t site) {
    struct node *leaf = new_node(walk->frames - from);
    if (!leaf) return NULL;
    for (uint32_t i = from; i < walk->frames; i++) {
        leaf->frame[i - from].place = place_of(walk, i);
        leaf->frame[i - from].low = (uint32_t)walk->frame[i].address;
    }
    leaf->site = site;
    leaf->reach = place_of(walk, walk->frames - 1) + 8;
    return leaf;
}

// The node of what an older one has from frame `from` on.
static struct node *new_rest(const struct node *node, uint32_t from) {
    struct node *rest = new_node(node->frames - from);
    if (!rest) return NULL;
    for (uint32_t i = from; i < node->frames; i++) rest->frame[i - from] = node->frame[i];
    rest->branch = node->branch;
    rest->site = node->site;
    rest->reach = node->reach;
    return rest;
}

// Two stacks part at frame i of a node, which is frame `at` of the new one.
static void split(uint64_t key, const struct node *node, uint32_t i, const struct stack_walk *walk,
                  uint32_t at, uint32_t site) {
    struct node *head = new_node(i), *rest = new_rest(node, i + 1), *leaf = new_leaf(walk, at + 1, site);
    if (!head || !rest || !leaf) return;
    for (uint32_t k = 0; k < i; k++) head->frame[k] = node->frame[k];
    head->branch = node->frame[i].place;
    head->reach = head->branch + 8;
    if (site_map_put(&keys, key_behind(head, node->frame[i].low), (uintptr_t)rest) &&
        site_map_put(&keys, key_behind(head, (uint32_t)walk->frame[at].address), (uintptr_t)leaf))
        site_map_put(&keys, key, (uintptr_t)head);
}

// Puts a stack into the cache. Not one whose frames lie where those of another with the same addresses do not: no word of
// the stack distinguishes the two safely, and each of its calls walks.
static void insert(const struct stack_walk *walk, uint32_t site) {
    uint64_t key = key_of(walk->frame[0].cfa);
    uint32_t at = 1;  // frames that the key stands for
    for (;;) {
        const struct node *node = (const struct node *)(uintptr_t)site_map_get(&keys, key);
        if (!node) {
            struct node *leaf = new_leaf(walk, at, site);
            if (leaf) site_map_put(&keys, key, (uintptr_t)leaf);
            return;
        }
        for (uint32_t i = 0; i < node->frames; i++, at++) {
            if (at == walk->frames || place_of(walk, at) != node->frame[i].place) return;
            if ((uint32_t)walk->frame[at].address == node->frame[i].low) continue;
            split(key, node, i, walk, at, site);
            return;
        }
        if (!node->branch || at == walk->frames || place_of(walk, at) != node->branch) return;
        key = key_behind(node, (uint32_t)walk->frame[at++].address);
    }
}

struct slow_find {
    struct thread_state *t;
    uint32_t site;
};

static void find_by_walk(void *argument) {
    struct slow_find *find = argument;
    struct stack_walk walk;
    stack_walk(&walk, find->t->stack, settings.site_frames);
    stack_walk_learn(&walk, settings.site_frames);
    find->site = site_log_number(find->t, &walk);
    if (find->site && walk.regular) insert(&walk, find->site);
}

// On a stack of our own: that of the caller may be a signal handler's, of the least size. No handler runs meanwhile, which
// would find no more of it than we leave.
static __attribute__((noinline)) uint32_t find_slowly(struct thread_state *t) {
    enum { STACK_BYTES = 128 << 10 };
    static char *stack;
    struct slow_find find = {t, 0};
    if (!recorder_may_call()) return 0;
    int saved = errno;
    uint64_t signals = sys_block_signals();
    if (lock(t)) {
        if (!stack) stack = site_memory(STACK_BYTES);
        uintptr_t top = (uintptr_t)stack + STACK_BYTES;
        if (stack) call_on_stack(find_by_walk, &find, (void *)(top & ~(uintptr_t)15));
        unlock();
    }
    sys_restore_signals(signals);
    recorder_has_called();
    errno = saved;
    return find.site;
}

// Stacks that part further up only are distinguished when all is compared, and from then on always. So it is for some time
// after each stack that was new, as others will be; else now and then, which the golden ratio spreads whatever period the
// program has.
static inline uint32_t frames_to_compare(const struct thread_state *t) {
    if (unlikely(new_stacks_left)) {
        new_stacks_left--;
        return HT_SITE_FRAMES_MAX;
    }
    bool all = t->calls * UINT64_C(0x9e3779b97f4a7c15) < UINT64_MAX / COMPARED_ALL_EVERY;
    return unlikely(all) ? HT_SITE_FRAMES_MAX : COMPARED_MOSTLY;
}

bool sites_append(struct thread_state *t) {
    uint32_t site = stack_is_own(t->stack) ? find(t->stack, own_stack.end, frames_to_compare(t)) : 0;
    if (unlikely(!site)) {
        new_stacks_left = COMPARED_ALL_AFTER_NEW;
        site = find_slowly(t);
        if (t->epoch != epoch_now() || !t->chunk) return false;
        if (t->cursor.at >= recorder_append_end(t) && !recorder_next_chunk(t)) return false;
    }
    if (site == t->site) return true;
    ht_append_modifier(&t->cursor, HT_MODIFIER_SITE, site);
    t->site = site;
    return true;
}

void sites_start(void) {
    if (settings.site_frames && !stack_walk_start()) settings.site_frames = 0;
}

void sites_new_thread(void) {
    if (settings.site_frames) stack_walk_new_thread();
}

static bool all(uint64_t key, uint64_t value) {
    (void)key;
    (void)value;
    return true;
}

void sites_new_log(void) {
    if (!settings.site_frames || !lock(&self)) return;
    site_map_sweep(&keys, all);
    unlock();
}

void sites_after_fork(void) {
    holder = NULL;
    abandoned = false;
    atomic_flag_clear(&busy);
    sites_new_log();
}

void sites_after_unload(void) {
    struct site_modules loaded;
    if (!settings.site_frames) return;
    site_log_find_modules(&loaded);
    if (!lock(&self)) return;
    if (site_log_drop_modules(&loaded)) {
        stack_walk_forget(site_log_is_gone);
        site_map_sweep(&keys, all);
    }
    unlock();
}
