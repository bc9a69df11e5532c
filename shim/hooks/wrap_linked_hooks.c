// SPDX-License-Identifier: Apache-2.0
// The hooks of a linked-in allocator's functions. Which function it is, its slot says: code that `record` has prepared
// passes the slot behind the arguments. A function takes fewer than are passed here, which it does not notice.
//
// What the allocator calls meanwhile is its own, other functions with such hooks too (calloc that calls malloc):
// GATE_BUSY_LINKED.
#include <errno.h>

#include "linked_call.h"
#include "linked_hooks.h"
#include "mallctl_names.h"

#ifdef __x86_64__

enum { MALLOCX_LG_ALIGN_MASK = 0x3f, MALLOCX_ZERO = 0x40, LAYOUT_ALIGNMENT = 16 };

typedef uintptr_t real_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t);

#define PARAMETERS                                                                                           \
    uintptr_t first, uintptr_t second, uintptr_t third, uintptr_t fourth, uintptr_t fifth,                   \
        const struct ht_hook_slot *slot
// By place; what is in no place is 0.
#define ARGUMENTS      {first, second, third, fourth, fifth, 0, 0, 0}
#define CALL_REAL()    ((real_function *)slot->real)(first, second, third, fourth, fifth)
#define enter_hooked() enter_from(GATE_BUSY_OWN, __builtin_return_address(0))

struct sizes {
    enum ht_function function;
    size_t count, size, alignment;
};

// Size and alignment as the record has them.
static inline struct sizes sizes_of(const struct ht_hook_slot *slot, const uintptr_t argument[8]) {
    const struct ht_hook_shape *shape = &slot->shape;
    struct sizes sizes = {(enum ht_function)shape->function, 1, argument[shape->size],
                          argument[shape->alignment]};
    if (shape->count != HT_HOOK_NO_ARGUMENT) sizes.count = argument[shape->count];
    if (sizes.count != 1 && sizes.function != HT_CALLOC && sizes.function != HT_REALLOCARRAY) {
        sizes.size = wrap_product(sizes.count, sizes.size);
        sizes.count = 1;
    }
    if (shape->rule == HT_HOOK_FLAGS) {
        unsigned flags = (unsigned)sizes.alignment, shift = flags & MALLOCX_LG_ALIGN_MASK;
        sizes.alignment = shift ? (size_t)1 << shift : 0;
        if (shape->kind == HT_HOOK_RELEASES) sizes.function = shift ? HT_FREE_ALIGNED_SIZED : HT_FREE_SIZED;
        else if (shift) sizes.function = HT_ALIGNED_ALLOC;
        else if (flags & MALLOCX_ZERO) sizes.function = HT_CALLOC;
    } else if (shape->rule == HT_HOOK_LAYOUT) {
        if (sizes.alignment <= LAYOUT_ALIGNMENT && sizes.alignment <= sizes.size) sizes.alignment = 0;
        else sizes.function = HT_ALIGNED_ALLOC;
    }
    return sizes;
}

static inline struct wrap_call begin_allocation(struct thread_state *t, const struct ht_hook_slot *slot,
                                                const uintptr_t argument[8]) {
    struct sizes sizes = sizes_of(slot, argument);
    return (struct wrap_call){t, sizes.function, sizes.count, sizes.size, sizes.alignment};
}

// Also where an exception leaves the function: a call that failed. The call site is the hook's caller.
static inline __attribute__((always_inline)) void end_allocation(struct wrap_call *call) {
    if (likely(call->t)) call->t->stack = frame_end();
    wrap_call_end_allocation(call);
}

static inline __attribute__((always_inline)) void end_resize(struct wrap_call *call) {
    if (likely(call->t)) call->t->stack = frame_end();
    wrap_call_end_resize(call);
}

static uintptr_t on_allocation(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_allocation))) =
        begin_allocation(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t block = CALL_REAL();
    call.block = (void *)block;
    return block;
}

static uintptr_t on_filling(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_allocation))) =
        begin_allocation(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t error = CALL_REAL();
    if (!(int)error) call.block = *(void **)argument[slot->shape.block];
    return error;
}

static inline struct wrap_call begin_resize(struct thread_state *t, const struct ht_hook_slot *slot,
                                            const uintptr_t argument[8]) {
    struct sizes sizes = sizes_of(slot, argument);
    struct wrap_call call = {t, sizes.function, sizes.count, sizes.size,
                             .old = (void *)argument[slot->shape.block]};
    wrap_call_begin_resize(&call);
    return call;
}

static uintptr_t on_resizing(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_resize))) = begin_resize(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t block = CALL_REAL();
    call.block = (void *)block;
    return block;
}

static uintptr_t on_stretching(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct wrap_call call __attribute__((cleanup(end_resize))) = begin_resize(enter_hooked(), slot, argument);
    if (likely(call.t)) linked_begin_work(call.t);
    uintptr_t size = CALL_REAL();
    if (size >= call.size) call.block = call.old;
    return size;
}

static uintptr_t on_release(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct thread_state *t = enter_hooked();
    if (unlikely(!t)) return CALL_REAL();
    const struct ht_hook_shape *shape = &slot->shape;
    void *block = (void *)argument[shape->block];
    if (shape->function == HT_FREE) {
        wrap_put_free(t, block);
    } else {
        struct sizes sizes = sizes_of(slot, argument);
        bool aligned = sizes.function == HT_FREE_ALIGNED_SIZED || shape->alignment != HT_HOOK_NO_ARGUMENT;
        if (sizes.function == HT_FREE_SIZED) aligned = false;
        wrap_put_delete(t, sizes.function, block, shape->size != HT_HOOK_NO_ARGUMENT, sizes.size, aligned,
                        sizes.alignment);
    }
    linked_begin_work(t);
    uintptr_t result = CALL_REAL();
    leave(t);
    return result;
}

static uintptr_t on_question(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct thread_state *t = enter_hooked();
    if (unlikely(!t)) return CALL_REAL();
    wrap_put_query(t, (const void *)argument[slot->shape.block]);
    linked_begin_work(t);
    uintptr_t result = CALL_REAL();
    leave(t);
    return result;
}

// Of mallctl the first argument is the name, the last two are the new value.
static struct ht_control_call control_of(const struct ht_hook_slot *slot, const uintptr_t argument[8]) {
    const struct ht_hook_shape *shape = &slot->shape;
    if (shape->function == HT_CTL_MALLCTL)
        return wrap_mallctl_call((const char *)argument[0], (const void *)argument[3], argument[4]);
    struct ht_control_call call = {.number = shape->function, .second = (int64_t)argument[shape->size]};
    if (call.number == HT_CTL_MI_COLLECT) call.second = (uint8_t)call.second;  // a bool
    return call;
}

static uintptr_t on_control(PARAMETERS) {
    const uintptr_t argument[8] = ARGUMENTS;
    struct thread_state *t = enter_hooked();
    if (unlikely(!t)) return CALL_REAL();
    struct ht_control_call call = control_of(slot, argument);
    wrap_begin_control(t, call.number, call.first, call.second);
    linked_begin_work(t);
    uintptr_t result = CALL_REAL();
    wrap_end_control(t);
    return result;
}

uintptr_t linked_hook(enum ht_hook_kind kind) {
    static uintptr_t (*const hooks[HT_HOOK_KINDS])(PARAMETERS) = {
        [HT_HOOK_ALLOCATES] = on_allocation, [HT_HOOK_FILLS] = on_filling,    [HT_HOOK_RESIZES] = on_resizing,
        [HT_HOOK_STRETCHES] = on_stretching, [HT_HOOK_RELEASES] = on_release, [HT_HOOK_ASKS] = on_question,
        [HT_HOOK_CONTROLS] = on_control};
    return (uintptr_t)hooks[kind];
}

#endif
