// SPDX-License-Identifier: Apache-2.0
// Calls that a linked-in allocator has served, handed over by whoever called it (heaptape_recorder.h).
//
// What that allocator calls meanwhile passes through: GATE_BUSY_LINKED tells the hooks that it is its own. A call that is
// handed over then is a signal handler's.
#include "context_notes.h"
#include "heaptape_recorder.h"
#include "wrap.h"

#include <errno.h>

_Static_assert(sizeof(struct wrap_call) <= sizeof(struct heaptape_call), "a call must fit");
#define SAME(name) _Static_assert((int)HEAPTAPE_##name == (int)HT_##name, "the numbers are the format's")
SAME(MALLOC);
SAME(CALLOC);
SAME(FREE);
SAME(POSIX_MEMALIGN);
SAME(ALIGNED_ALLOC);
SAME(MEMALIGN);
SAME(FREE_SIZED);
SAME(FREE_ALIGNED_SIZED);
SAME(NEW);
SAME(NEW_ARRAY);
SAME(NEW_ALIGNED);
SAME(NEW_ARRAY_ALIGNED);
SAME(DELETE);
SAME(DELETE_ARRAY);
SAME(DELETE_SIZED);
SAME(DELETE_ARRAY_SIZED);
SAME(DELETE_ALIGNED);
SAME(DELETE_ARRAY_ALIGNED);
SAME(DELETE_SIZED_ALIGNED);
SAME(DELETE_ARRAY_SIZED_ALIGNED);

// No hook was called, so no caller is to be judged.
#define enter_linked() enter_from(GATE_BUSY_OWN, NULL)

static inline uint32_t bit(unsigned function) { return function < 32 ? UINT32_C(1) << function : 0; }

static bool is_one_of(unsigned function, uint32_t functions) { return bit(function) & functions; }

// NOLINTNEXTLINE(bugprone-casting-through-void): the room is meant for one, and large enough
static struct wrap_call *room_of(struct heaptape_call *call) { return (struct wrap_call *)(void *)call; }

static void name_allocator(const char *name) { linked_allocator_name(name); }

static void begin_allocation(struct heaptape_call *room) {
    struct wrap_call *call = room_of(room);
    *call = (struct wrap_call){.t = enter_linked()};
    if (likely(call->t)) linked_begin_work(call->t);
}

// The call site is the caller of this half, whose frame is still there.
static void end_allocation(struct heaptape_call *room, unsigned function, void *block, size_t count,
                           size_t size, size_t alignment) {
    const uint32_t aligned = bit(HT_POSIX_MEMALIGN) | bit(HT_ALIGNED_ALLOC) | bit(HT_MEMALIGN) |
                             bit(HT_NEW_ALIGNED) | bit(HT_NEW_ARRAY_ALIGNED),
                   plain = bit(HT_MALLOC) | bit(HT_CALLOC) | bit(HT_NEW) | bit(HT_NEW_ARRAY);
    struct wrap_call *call = room_of(room);
    if (unlikely(!call->t)) return;
    call->t->stack = frame_end();
    call->function = is_one_of(function, aligned | plain) ? (enum ht_function)function : HT_MALLOC;
    call->block = block;
    call->count = count;
    call->size = size;
    call->alignment = is_one_of(function, aligned) ? alignment : 0;
    wrap_call_end_allocation(call);
}

static void begin_resize(struct heaptape_call *room, void *former, size_t size) {
    struct wrap_call *call = room_of(room);
    struct thread_state *t = unlikely(boot_owns(former)) ? NULL : enter_linked();
    *call = (struct wrap_call){.t = t, .function = HT_REALLOC, .count = 1, .size = size, .old = former};
    wrap_call_begin_resize(call);
    if (likely(t)) linked_begin_work(t);
}

static void end_resize(struct heaptape_call *room, void *block) {
    struct wrap_call *call = room_of(room);
    if (unlikely(!call->t)) return;
    call->t->stack = frame_end();
    call->block = block;
    wrap_call_end_resize(call);
}

static void begin_free(struct heaptape_call *room, unsigned function, void *block, size_t size,
                       size_t alignment) {
    const uint32_t sized = bit(HT_FREE_SIZED) | bit(HT_FREE_ALIGNED_SIZED) | bit(HT_DELETE_SIZED) |
                           bit(HT_DELETE_ARRAY_SIZED) | bit(HT_DELETE_SIZED_ALIGNED) |
                           bit(HT_DELETE_ARRAY_SIZED_ALIGNED),
                   aligned = bit(HT_FREE_ALIGNED_SIZED) | bit(HT_DELETE_ALIGNED) |
                             bit(HT_DELETE_ARRAY_ALIGNED) | bit(HT_DELETE_SIZED_ALIGNED) |
                             bit(HT_DELETE_ARRAY_SIZED_ALIGNED),
                   plain = bit(HT_DELETE) | bit(HT_DELETE_ARRAY);
    struct wrap_call *call = room_of(room);
    struct thread_state *t = unlikely(boot_owns(block)) ? NULL : enter_linked();
    call->t = t;
    if (unlikely(!t)) return;
    if (is_one_of(function, sized | aligned | plain))
        wrap_put_delete(t, (enum ht_function)function, block, is_one_of(function, sized), size,
                        is_one_of(function, aligned), alignment);
    else wrap_put_free(t, block);
    linked_begin_work(t);
}

static void end_free(struct heaptape_call *room) {
    struct thread_state *t = room_of(room)->t;
    if (likely(t)) leave(t);
}

EXPORT const struct heaptape_recorder *heaptape_recorder(uint32_t version) {
    static const struct heaptape_recorder recorder = {.version = HEAPTAPE_RECORDER_VERSION,
                                                      .bytes = sizeof recorder,
                                                      .name_allocator = name_allocator,
                                                      .begin_allocation = begin_allocation,
                                                      .end_allocation = end_allocation,
                                                      .begin_resize = begin_resize,
                                                      .end_resize = end_resize,
                                                      .begin_free = begin_free,
                                                      .end_free = end_free};
    return version >= 1 && version <= HEAPTAPE_RECORDER_VERSION ? &recorder : NULL;
}
