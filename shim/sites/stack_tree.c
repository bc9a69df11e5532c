// SPDX-License-Identifier: Apache-2.0
#include "stack_tree.h"

#include <string.h>

enum { SLOTS_BITS_MIN = 9, SLOTS_OF_ONE = 2, SLOTS_BEHIND = 128 };

// False: it would come to lie where only a search ends.
static bool place(struct tree_slots *slots, const struct tree_slot *content) {
    uint64_t i = tree_start(slots, content->key);
    while (slots->slot[i].key) i++;
    if (i + 1 >= slots->count) return false;
    struct tree_slot *slot = &slots->slot[i];
    memcpy((char *)slot + sizeof slot->key, (const char *)content + sizeof slot->key,
           sizeof *slot - sizeof slot->key);
    atomic_store_explicit(&slot->key, content->key, memory_order_release);
    return true;
}

// A copy that is less full. NULL: there is no memory.
static struct tree_slots *copy_wider(const struct tree_slots *old, unsigned bits) {
    // Searches go on behind the last place where one begins. The first slot begins at a cache line.
    uint64_t count = (UINT64_C(1) << bits) + SLOTS_BEHIND;
    struct tree_slots *fresh = site_memory_mapped(sizeof *fresh + count * sizeof *fresh->slot);
    if (!fresh) return NULL;
    fresh->count = count;
    fresh->shift = 64 - bits;
    for (uint64_t i = 0; old && i < old->count; i++) {
        if (!old->slot[i].key || place(fresh, &old->slot[i])) continue;
        site_memory_release(fresh->slot, count * sizeof *fresh->slot);
        return NULL;
    }
    return fresh;
}

static bool grow(struct stack_tree *tree) {
    struct tree_slots *old = tree->slots;
    unsigned bits = SLOTS_BITS_MIN;
    while (UINT64_C(1) << bits < SLOTS_OF_ONE * tree->taken) bits++;
    struct tree_slots *fresh = tree->full ? NULL : copy_wider(old, bits);
    tree->full = !fresh;
    if (!fresh) return false;
    atomic_store_explicit(&tree->slots, fresh, memory_order_release);
    if (old) site_memory_release(old->slot, old->count * sizeof *old->slot);
    return true;
}

// Room for so many more slots.
static bool has_room(struct stack_tree *tree, size_t more) {
    return (tree->slots && 3 * (tree->taken + more) <= 2 * tree->slots->count) || grow(tree);
}

static bool put(struct stack_tree *tree, const struct tree_slot *content) {
    tree->taken++;
    return place(tree->slots, content);
}

static uint32_t place_of(const struct stack_walk *walk, uint32_t i) {
    return (uint32_t)(walk->frame[i].cfa - walk->frame[0].cfa - 8);
}

static struct tree_frame frame_of(const struct stack_walk *walk, uint32_t i) {
    return (struct tree_frame){place_of(walk, i), (uint32_t)walk->frame[i].address};
}

static struct tree_part part_of(uint32_t frames, uint32_t place, uint32_t id) {
    struct tree_part part = {.id = id};
    part.frames = frames & ((1u << (32 - TREE_BRANCH_BITS)) - 1);
    part.branch = place / 8 & ((1u << TREE_BRANCH_BITS) - 1);
    return part;
}
_Static_assert(HT_SITE_FRAMES_MAX < 1 << (32 - TREE_BRANCH_BITS), "a part can count the frames of a stack");

// May slots hold the places of its frames? Each lies above the one before, by a multiple of 8 bytes.
static bool has_places(const struct stack_walk *walk) {
    uintptr_t distance = walk->frame[walk->frames - 1].cfa - walk->frame[0].cfa;
    return distance % 8 == 0 && distance / 8 < 1 << TREE_BRANCH_BITS;
}

// The slot of the stack's frames from `from` on. False: there is no memory.
static bool make_leaf(struct stack_tree *tree, struct tree_slot *leaf, uint64_t key,
                      const struct stack_walk *walk, uint32_t from, uint32_t site) {
    uint32_t frames = walk->frames - from;
    struct tree_frame *more = NULL;
    if (frames > TREE_FRAMES_IN_SLOT) {
        more = site_memory((frames - TREE_FRAMES_IN_SLOT) * sizeof *more);
        if (!more) return false;
    }
    *leaf = (struct tree_slot){.key = key,
                               .part = part_of(frames, 0, ++tree->ids),
                               .site = site,
                               .reach = place_of(walk, walk->frames - 1) + 8,
                               .more = more};
    for (uint32_t i = 0; i < frames && i < TREE_FRAMES_IN_SLOT; i++)
        leaf->first[i] = frame_of(walk, from + i);
    for (uint32_t i = TREE_FRAMES_IN_SLOT; i < frames; i++)
        more[i - TREE_FRAMES_IN_SLOT] = frame_of(walk, from + i);
    return true;
}

// A slot's frames behind frame i, as a slot of their own. Whatever follows the slot follows these.
static struct tree_slot rest_of(const struct tree_slot *slot, uint32_t i, uint64_t key) {
    struct tree_part whole = slot->part, part = part_of(whole.frames - i - 1, 8 * whole.branch, whole.id);
    struct tree_slot rest = {.key = key,
                             .part = part,
                             .site = slot->site,
                             .reach = slot->reach,
                             .more = slot->more ? slot->more + i + 1 : NULL};
    for (uint32_t k = 0; k < part.frames && k < TREE_FRAMES_IN_SLOT; k++)
        rest.first[k] = *tree_frame_of(slot, i + 1 + k);
    return rest;
}

// Paths behind the keys of a group are others from now on.
static void note_change(struct stack_tree *tree, uint32_t group) {
    atomic_fetch_add_explicit(&tree->changes[group], 1, memory_order_release);
}

// The word at a slot's frame i distinguishes stacks from now on: the frames behind lie in a slot of their own.
static void part_at(struct stack_tree *tree, struct tree_slot *slot, uint32_t i, uint32_t id, uint64_t hash) {
    const struct tree_frame *frame = tree_frame_of(slot, i);
    struct tree_part head = part_of(i, frame->place, id);
    struct tree_slot rest = rest_of(slot, i, tree_key_behind(id, frame->low));
    if (!put(tree, &rest)) return;
    atomic_store_explicit(&slot->part, head, memory_order_release);
    note_change(tree, tree_group(hash));
}

// A stack, of which frame `at` is the first that is not that of a slot, its frame i.
static void insert_at(struct stack_tree *tree, struct tree_slot *slot, uint32_t i,
                      const struct stack_walk *walk, uint32_t at, uint32_t site, uint64_t hash) {
    uint32_t id = ++tree->ids;
    // If it has no return address in that place, what lies there may change. But it is not the slot's.
    if (site && at < walk->frames && place_of(walk, at) == tree_frame_of(slot, i)->place) {
        struct tree_slot leaf;
        uint64_t key = tree_key_behind(id, (uint32_t)walk->frame[at].address);
        if (!make_leaf(tree, &leaf, key, walk, at + 1, site) || !put(tree, &leaf)) return;
    }
    part_at(tree, slot, i, id, hash);
}

static bool is_frame_of(const struct tree_slot *slot, uint32_t i, const struct stack_walk *walk,
                        uint32_t at) {
    const struct tree_frame *frame = tree_frame_of(slot, i);
    return at < walk->frames && place_of(walk, at) == frame->place &&
           (uint32_t)walk->frame[at].address == frame->low;
}

void tree_insert(struct stack_tree *tree, const struct tree_hook *hook, const struct stack_walk *walk,
                 uint32_t site) {
    enum { SLOTS_MAX = 2 };
    if (!has_room(tree, SLOTS_MAX)) return;
    if (!walk->regular || !has_places(walk)) site = 0;
    uint64_t key = tree_key(hook);
    uint32_t at = 1;  // frames that the key stands for
    for (;;) {
        struct tree_slot *slot = (struct tree_slot *)tree_slot_of(tree->slots, key), leaf;
        if (!slot) {
            if (site && make_leaf(tree, &leaf, key, walk, at, site)) put(tree, &leaf);
            return;
        }
        struct tree_part part = slot->part;
        for (uint32_t i = 0; i < part.frames; i++, at++) {
            if (is_frame_of(slot, i, walk, at)) continue;
            insert_at(tree, slot, i, walk, at, site, hook->hash);
            return;
        }
        if (!part.branch || at == walk->frames || place_of(walk, at) != 8 * part.branch) return;
        key = tree_key_behind(part.id, (uint32_t)walk->frame[at++].address);
    }
}

void tree_clear(struct stack_tree *tree) {
    struct tree_slots *old = tree->slots;
    atomic_fetch_add_explicit(&tree->clears, 1, memory_order_release);
    atomic_store_explicit(&tree->slots, NULL, memory_order_release);
    for (uint32_t group = 0; group < 1 << TREE_GROUP_BITS; group++) note_change(tree, group);
    tree->taken = 0;
    tree->full = false;
    if (old) site_memory_release(old->slot, old->count * sizeof *old->slot);
}
