// SPDX-License-Identifier: Apache-2.0
// Which of the stacks that were seen is this one? A table of slots of one cache line each, behind the key of a hook: a slot
// has the frames that all stacks of its key share from there on, and where the word lies by which they part. That word leads
// to the next slot.
//
// It is read without a lock while one thread adds to it. Of a slot only one word ever changes, by which its later frames
// move to a slot behind it.
#ifndef HEAPTAPE_STACK_TREE_H
#define HEAPTAPE_STACK_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attributes.h"
#include "site_map.h"
#include "stack_walk.h"

enum { TREE_FRAMES_IN_SLOT = 4, TREE_BRANCH_BITS = 24, TREE_PATH_MAX = 3, TREE_GROUP_BITS = 10 };

struct tree_frame {
    uint32_t place, low;  // where a return address lies, from the hook's cfa on, and its low half
};

// A part of a slot that may change.
struct tree_part {
    uint32_t frames : 32 - TREE_BRANCH_BITS;
    uint32_t branch
        : TREE_BRANCH_BITS;  // the place where they part, in units of 8 bytes; 0: they do not part any more
    uint32_t id;             // stands for the slot in the keys behind it
};

struct tree_slot {
    _Alignas(64) _Atomic uint64_t key;  // 0: nothing has been here
    _Atomic struct tree_part part;
    _Atomic uint32_t site;  // where they do not part: their number
    uint32_t reach;         // and the end of the last word that is read
    struct tree_frame first[TREE_FRAMES_IN_SLOT];
    const struct tree_frame *_Atomic more;
};
_Static_assert(sizeof(struct tree_slot) == 64, "a slot is a cache line");

struct tree_slots {
    uint64_t count;
    uint32_t shift;
    struct tree_slot slot[];  // the last one is always free
};

struct stack_tree {
    _Atomic uint32_t changes[1 << TREE_GROUP_BITS];  // of the paths behind a group of keys
    struct tree_slots *_Atomic slots;  // where it grows, who still reads the old ones finds nothing
    size_t taken;
    uint32_t ids;
    bool full;                // there is no memory to grow
    _Atomic uint32_t clears;  // how often all of it was forgotten
};

// A hook, whose frame ends at `cfa`. Its key is made of its return address and the distance to the stack's end: threads that
// libc made and that call the same functions have the same ones.
struct tree_hook {
    uintptr_t cfa, address, to_end;
    uint64_t hash;  // of the key
};

// The words by which a search went: as long as no path behind its key changes, a stack that has them ends up at the same slot.
struct tree_path {
    _Atomic uint32_t changes;       // of the key's group, when the search began
    uint32_t to_end;                // the key's
    uint32_t sum;                   // of the key and the words: tree_sum_of()
    uint16_t place[TREE_PATH_MAX];  // in units of 8 bytes, from the key's address on
    uint16_t words;                 // above TREE_PATH_MAX: there are more, or one lies too far away
};

struct tree_found {
    struct tree_path path;
    uint32_t site;  // 0: the stack is not known
    uint64_t hash;  // of the key
};

static inline struct tree_hook tree_hook(uintptr_t cfa, uintptr_t end) {
    uintptr_t address = ((const uintptr_t *)cfa)[-1], to_end = end - cfa;
    // The hash is in the high bits.
    return (struct tree_hook){cfa, address, to_end, (address ^ to_end << 20) * SITE_MULTIPLIER};
}
static inline uint64_t tree_key(const struct tree_hook *hook) {
    return site_mix(hook->address, hook->to_end) | UINT64_C(1) << 63;
}

// That of a slot behind another one.
static inline uint64_t tree_key_behind(uint32_t id, uint32_t low) { return (uint64_t)id << 32 | low; }

// A key's search begins there. Each level waits for the one before: this is as short as it can be.
static inline uint64_t tree_start(const struct tree_slots *slots, uint64_t key) {
    return key * SITE_MULTIPLIER >> slots->shift;
}

static inline const struct tree_slot *tree_slot_of(const struct tree_slots *slots, uint64_t key) {
    for (uint64_t i = tree_start(slots, key);; i++) {
        const struct tree_slot *slot = &slots->slot[i];
        uint64_t found = atomic_load_explicit(&slot->key, memory_order_acquire);
        if (likely(found == key)) return slot;
        if (!found) return NULL;
    }
}

static inline const struct tree_frame *tree_frame_of(const struct tree_slot *slot, uint32_t i) {
    return i < TREE_FRAMES_IN_SLOT ? &slot->first[i] : &slot->more[i - TREE_FRAMES_IN_SLOT];
}

static inline uint32_t tree_word(uintptr_t cfa, uintptr_t place) {
    typedef const uint32_t __attribute__((may_alias)) word;
    return *(word *)(cfa + place);
}

// Does the stack have so many of the slot's frames?
static inline bool tree_slot_matches(const struct tree_slot *slot, uint32_t frames, uintptr_t cfa) {
    for (uint32_t i = 0; i < frames && i < TREE_FRAMES_IN_SLOT; i++)
        if (unlikely(tree_word(cfa, slot->first[i].place) != slot->first[i].low)) return false;
    if (frames <= TREE_FRAMES_IN_SLOT) return true;
    const struct tree_frame *more = atomic_load_explicit(&slot->more, memory_order_relaxed);
    if (!more) return false;  // the slots are old ones
    for (uint32_t i = TREE_FRAMES_IN_SLOT; i < frames; i++, more++)
        if (unlikely(tree_word(cfa, more->place) != more->low)) return false;
    return true;
}

static inline uint32_t tree_group(uint64_t hash) { return (uint32_t)(hash >> (64 - TREE_GROUP_BITS)); }

// The group of the keys with such a hash.
static inline uint32_t tree_changes(const struct stack_tree *tree, uint64_t hash) {
    return atomic_load_explicit(&tree->changes[tree_group(hash)], memory_order_acquire);
}

// Adds the low half of word i. The multipliers are odd (primes of xxHash's): a change of one word always shows, and changes of
// several cancel out with a chance of 2^-32.
static inline uint32_t tree_sum(uint32_t sum, uint32_t word, uint32_t i) {
    static const uint32_t multiplier[] = {0x9e3779b1, 0x85ebca77, 0xc2b2ae3d};
    _Static_assert(sizeof multiplier / sizeof *multiplier == TREE_PATH_MAX, "each word has one");
    return sum + word * multiplier[i];
}

// The sum of the key and the words. If a path has fewer, the key's address takes their places (place 0).
static inline uint32_t tree_sum_of(const struct tree_path *path, const struct tree_hook *hook) {
    uint32_t sum = (uint32_t)(hook->hash >> 32);
#pragma GCC unroll 3
    for (uint32_t i = 0; i < TREE_PATH_MAX; i++)
        sum = tree_sum(sum, tree_word(hook->cfa, 8 * (uintptr_t)path->place[i] - 8), i);
    return sum;
}

static inline void tree_path_add(struct tree_path *path, uint32_t place) {
    uint32_t units = place / 8 + 1;
    if (units > UINT16_MAX) path->words = TREE_PATH_MAX;
    if (path->words < TREE_PATH_MAX) path->place[path->words] = (uint16_t)units;
    if (path->words <= TREE_PATH_MAX) path->words++;
}

// Does a search for the hook's stack, which is the thread's own, go by these words? The distance to the end is compared first:
// then none lies beyond the end, as none did where the path was found. All are read, without a branch: paths of different
// lengths follow each other, and a branch that is mispredicted takes longer than a word.
static inline bool tree_has_path(const struct stack_tree *tree, const struct tree_path *path,
                                 const struct tree_hook *hook) {
    uint32_t changes = tree_changes(tree, hook->hash);
    return path->to_end == (uint32_t)hook->to_end && path->changes == changes &&
           path->sum == tree_sum_of(path, hook);
}

// Goes by the words by which the known stacks part, and compares all the others too, or none of them.
static inline __attribute__((always_inline)) uint32_t tree_search(const struct stack_tree *tree,
                                                                  const struct tree_hook *hook, bool compares,
                                                                  struct tree_found *found) {
    *found = (struct tree_found){.path.to_end = (uint32_t)hook->to_end, .hash = hook->hash};
    found->path.changes = tree_changes(tree, hook->hash);
    const struct tree_slots *slots = atomic_load_explicit(&tree->slots, memory_order_acquire);
    if (unlikely(!slots)) return 0;
    for (uint64_t key = tree_key(hook);;) {
        const struct tree_slot *slot = tree_slot_of(slots, key);
        if (unlikely(!slot)) return 0;
        struct tree_part part = atomic_load_explicit(&slot->part, memory_order_acquire);
        uint32_t place = 8 * part.branch, reach = place ? place + 8 : compares ? slot->reach : 0;
        if (unlikely(reach > hook->to_end)) return 0;
        if (compares && !tree_slot_matches(slot, part.frames, hook->cfa)) return 0;
        if (!place) {
            // Read last: 0 where the slots became old ones meanwhile.
            atomic_thread_fence(memory_order_acquire);
            found->site = atomic_load_explicit(&slot->site, memory_order_relaxed);
            found->path.sum = tree_sum_of(&found->path, hook);
            return found->site;
        }
        tree_path_add(&found->path, place);
        key = tree_key_behind(part.id, tree_word(hook->cfa, place));
    }
}

// The number of the hook's stack, and the path to it; 0: it is not in the tree.
static inline uint32_t tree_find(const struct stack_tree *tree, const struct tree_hook *hook,
                                 struct tree_found *found) {
    return tree_search(tree, hook, true, found);
}

// Takes less time: a stack that is not known may be taken for another.
static inline uint32_t tree_guess(const struct stack_tree *tree, const struct tree_hook *hook,
                                  struct tree_found *found) {
    return tree_search(tree, hook, false, found);
}

// Puts a stack into the tree, by one thread at a time. Not one that has no site or is not regular, and not one whose frames lie
// where those of another with the same addresses do not: no word of the stack distinguishes the two safely. Then the other one
// is found only by a word that this one lacks, and each call of this one walks.
HIDDEN void tree_insert(struct stack_tree *tree, const struct tree_hook *hook, const struct stack_walk *walk,
                        uint32_t site);
HIDDEN void tree_clear(struct stack_tree *tree);

#endif
