// SPDX-License-Identifier: Apache-2.0
// Hands out slots, the small recycled integers that name live objects in a trace.
//
// One shared last-freed-first stack would tie every allocation to the last free of any thread, and serialize
// threads in replay. So a thread reuses the slots of its own blocks that it freed itself, last freed first;
// then those of its blocks that others freed, oldest first; then the common pool, oldest first, which gets
// the surplus of ended and idle threads; then new numbers, eight at a time (a cache line of the replay
// table). Bound: slots <= 1.25 x peak live objects + 64 per thread.
#ifndef HEAPTAPE_SLOTS_H
#define HEAPTAPE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A doubly linked list through the slots' links, oldest at the tail. 0 ends it.
struct slot_list {
    uint32_t head, tail, count;
};

struct slot_thread {
    struct slot_list own;     // freed by the thread itself
    struct slot_list remote;  // freed by others
    uint32_t fresh, fresh_end;
    bool ended;
};

struct slot_state {
    union {
        uint64_t size;  // while live: the object's size in bytes
        struct {
            uint32_t newer, older;
        } link;  // while free
    };
    uint32_t owner;  // the thread that allocated it last
} __attribute__((packed, aligned(4)));

struct slots {
    struct slot_state *state;
    size_t room;
    uint32_t total;  // slots handed out so far: numbers 1 to total
    uint64_t live, live_peak;
    struct slot_list pool;
    struct slot_thread *thread;
    uint32_t threads;
    size_t thread_room;
};

bool slots_init(struct slots *slots);
void slots_free(struct slots *slots);
// Makes thread number slots->threads known.
bool slots_add_thread(struct slots *slots);
// A slot for an object of `size` bytes; 0 for want of memory or numbers.
uint32_t slots_take(struct slots *slots, uint32_t thread, uint64_t size);
// Ends the object in the slot.
void slots_give(struct slots *slots, uint32_t slot, uint32_t by_thread);
// For slots that are put together again from a file: room for numbers up to `total`, and a free one as the
// newest of a list.
bool slots_reserve(struct slots *slots, uint32_t total);
void slots_put_free(struct slots *slots, struct slot_list *list, uint32_t slot);
// The thread is gone: what it hoarded is everybody's.
void slots_thread_ended(struct slots *slots, uint32_t thread);

#endif
