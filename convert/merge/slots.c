// SPDX-License-Identifier: Apache-2.0
#include "slots.h"

#include <assert.h>
#include <stdlib.h>

#include "grow.h"

enum { NEW_AT_ONCE = 8, PER_THREAD = 64, RECLAIM_AT_ONCE = 256 };

bool slots_init(struct slots *slots) {
    *slots = (struct slots){.room = 1024};
    slots->state = malloc(slots->room * sizeof *slots->state);
    return slots->state != NULL;
}

void slots_free(struct slots *slots) {
    free(slots->state);
    free(slots->thread);
}

bool slots_add_thread(struct slots *slots) {
    if (!ht_grow(&slots->thread, &slots->thread_room, slots->threads + 1, sizeof *slots->thread))
        return false;
    slots->thread[slots->threads++] = (struct slot_thread){0};
    return true;
}

static void push_newest(struct slots *slots, struct slot_list *list, uint32_t slot) {
    slots->state[slot].link.older = list->head;
    slots->state[slot].link.newer = 0;
    if (list->head) slots->state[list->head].link.newer = slot;
    else list->tail = slot;
    list->head = slot;
    list->count++;
}

static uint32_t pop_newest(struct slots *slots, struct slot_list *list) {
    uint32_t slot = list->head;
    list->head = slots->state[slot].link.older;
    if (list->head) slots->state[list->head].link.newer = 0;
    else list->tail = 0;
    list->count--;
    return slot;
}

static uint32_t pop_oldest(struct slots *slots, struct slot_list *list) {
    uint32_t slot = list->tail;
    list->tail = slots->state[slot].link.newer;
    if (list->tail) slots->state[list->tail].link.older = 0;
    else list->head = 0;
    list->count--;
    return slot;
}

// Moves all of `from` behind the newest of `to`.
static void append_all(struct slots *slots, struct slot_list *to, struct slot_list *from) {
    if (!from->count) return;
    if (to->head) {
        slots->state[to->head].link.newer = from->tail;
        slots->state[from->tail].link.older = to->head;
    } else {
        to->tail = from->tail;
    }
    to->head = from->head;
    to->count += from->count;
    *from = (struct slot_list){0};
}

static bool grow(struct slots *slots) {
    size_t room = slots->room + slots->room / 4 + 1024;
    struct slot_state *state = realloc(slots->state, room * sizeof *state);
    if (!state) return false;
    slots->state = state;
    slots->room = room;
    return true;
}

static bool mint(struct slots *slots, struct slot_thread *thread) {
    if (slots->total > UINT32_MAX - NEW_AT_ONCE) return false;
    if (slots->total + NEW_AT_ONCE + 1 > slots->room && !grow(slots)) return false;
    thread->fresh = slots->total + 1;
    thread->fresh_end = thread->fresh + NEW_AT_ONCE;
    slots->total += NEW_AT_ONCE;
    return true;
}

// Takes the oldest of the thread that hoards most into the pool.
static bool reclaim(struct slots *slots) {
    struct slot_thread *richest = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < slots->threads; i++) {
        uint32_t has = slots->thread[i].own.count + slots->thread[i].remote.count;
        if (has > most) {
            most = has;
            richest = &slots->thread[i];
        }
    }
    for (unsigned n = 0; richest && n < RECLAIM_AT_ONCE; n++) {
        struct slot_list *list = richest->remote.count ? &richest->remote : &richest->own;
        if (!list->count) break;
        push_newest(slots, &slots->pool, pop_oldest(slots, list));
    }
    return richest != NULL;
}

static uint32_t take_shared(struct slots *slots, struct slot_thread *thread) {
    if (slots->pool.count) return pop_oldest(slots, &slots->pool);
    uint64_t bound = slots->live_peak + slots->live_peak / 4 + (uint64_t)PER_THREAD * slots->threads;
    if (slots->total + NEW_AT_ONCE > bound && reclaim(slots)) return pop_oldest(slots, &slots->pool);
    return mint(slots, thread) ? thread->fresh++ : 0;
}

uint32_t slots_take(struct slots *slots, uint32_t number, uint64_t size) {
    struct slot_thread *thread = &slots->thread[number];
    if (++slots->live > slots->live_peak) slots->live_peak = slots->live;
    uint32_t slot;
    if (thread->own.count) slot = pop_newest(slots, &thread->own);
    else if (thread->remote.count) slot = pop_oldest(slots, &thread->remote);
    else if (thread->fresh < thread->fresh_end) slot = thread->fresh++;
    else slot = take_shared(slots, thread);
    if (!slot) return 0;
    slots->state[slot].size = size;
    slots->state[slot].owner = number;
    return slot;
}

void slots_give(struct slots *slots, uint32_t slot, uint32_t by_thread) {
    assert(slot && slot <= slots->total);
    struct slot_thread *owner = &slots->thread[slots->state[slot].owner];
    struct slot_list *list = owner->ended                            ? &slots->pool
                             : slots->state[slot].owner == by_thread ? &owner->own
                                                                     : &owner->remote;
    slots->live--;
    push_newest(slots, list, slot);
}

void slots_thread_ended(struct slots *slots, uint32_t number) {
    struct slot_thread *thread = &slots->thread[number];
    thread->ended = true;
    append_all(slots, &slots->pool, &thread->remote);
    append_all(slots, &slots->pool, &thread->own);
    while (thread->fresh < thread->fresh_end) push_newest(slots, &slots->pool, thread->fresh++);
}

bool slots_reserve(struct slots *slots, uint32_t total) {
    while ((uint64_t)total + NEW_AT_ONCE + 1 > slots->room)
        if (!grow(slots)) return false;
    slots->total = total;
    return true;
}

void slots_put_free(struct slots *slots, struct slot_list *list, uint32_t slot) {
    push_newest(slots, list, slot);
}
