#include "loop_threads.h"

#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "trace_layout.h"

static enum loop_thread_kind kind_of(const struct loop_plan *plan, const struct ht_thread *facts,
                                     const struct loop_thread *thread) {
    bool before = facts->first_event < plan->from_event;
    bool ends = facts->ended && facts->end_ns < plan->until_ns;
    if (!thread->head_calls || (ends && facts->end_ns < plan->from_ns)) return LOOP_THREAD_SILENT;
    if (before) return ends ? LOOP_THREAD_LEAVES : LOOP_THREAD_STAYS;
    return ends ? LOOP_THREAD_INSIDE : LOOP_THREAD_ARRIVES;
}

// Threads of one name are alike: the oldest of those that leave is played by the oldest of those that have arrived.
void loop_threads_plan(struct loop_plan *plan, const struct ht_trace_facts *facts) {
    uint32_t count = plan->head_threads;
    for (uint32_t i = 0; i < count; i++) {
        plan->threads[i].kind = kind_of(plan, &facts->threads[i], &plan->threads[i]);
        plan->threads[i].partner = MATCH_NONE;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (plan->threads[i].kind != LOOP_THREAD_LEAVES) continue;
        for (uint32_t k = i + 1; k < count; k++) {
            struct loop_thread *other = &plan->threads[k];
            if (other->kind != LOOP_THREAD_ARRIVES || other->partner != MATCH_NONE ||
                strcmp(facts->threads[i].name, facts->threads[k].name))
                continue;
            other->partner = i;
            plan->threads[i].partner = k;
            break;
        }
    }
}

struct extending {
    const struct loop_plan *plan;
    const struct ht_trace_facts *facts;
    struct ht_thread *list;
    size_t count, room;
    uint32_t *number;  // by thread of the stretch: who plays it in this repetition
    uint32_t *before;  // and who did in the last
    uint32_t *order;   // those that call in a repetition, by their first event there
    size_t order_count;
};

static bool add(struct extending *extending, const struct ht_thread *thread) {
    if (extending->count >= HT_THREADS_MAX ||
        !ht_grow(&extending->list, &extending->room, extending->count + 1, sizeof *extending->list))
        return false;
    extending->list[extending->count++] = *thread;
    return true;
}

static bool put_head(struct extending *extending) {
    const struct loop_plan *plan = extending->plan;
    for (uint32_t i = 0; i < plan->head_threads; i++) {
        struct ht_thread thread = extending->facts->threads[i];
        const struct loop_thread *known = &plan->threads[i];
        thread.calls = known->head_calls;
        if (!thread.ended || thread.end_ns >= plan->until_ns) {
            thread.ended = loop_thread_ends(known);
            thread.end_ns = known->head_end_ns;
        }
        extending->number[i] = i;
        if (!add(extending, &thread)) return false;
    }
    return true;
}

static int by_first_row(const void *a, const void *b, void *context) {
    const struct loop_thread *threads = context;
    uint64_t left = threads[*(const uint32_t *)a].first_row, right = threads[*(const uint32_t *)b].first_row;
    return (left > right) - (left < right);
}

// One thread in one repetition, whose times are so much later. False for want of room.
static bool put_part(struct extending *extending, uint32_t i, uint64_t first_event, uint64_t shift_ns,
                     bool cut) {
    const struct loop_plan *plan = extending->plan;
    const struct loop_thread *known = &plan->threads[i];
    uint64_t calls = cut ? known->calls_cut : known->calls;
    uint64_t last_ns = (cut ? known->last_cut_ns : known->last_ns) + shift_ns;
    if (cut && known->first_row >= plan->rows_cut) return true;
    if (loop_thread_is_new(known)) {
        struct ht_thread thread = extending->facts->threads[i];
        thread.first_event = first_event + known->first_row;
        thread.start_ns = known->first_ns + shift_ns;
        thread.calls = 0;
        extending->number[i] = (uint32_t)extending->count;
        if (!add(extending, &thread)) return false;
    }
    struct ht_thread *thread = &extending->list[extending->number[i]];
    uint64_t ends_ns = extending->facts->threads[i].end_ns;
    bool recorded_end = extending->facts->threads[i].ended && ends_ns < plan->until_ns;
    if (recorded_end && ends_ns + shift_ns > last_ns) last_ns = ends_ns + shift_ns;
    thread->calls += calls;
    thread->ended = loop_thread_ends(known) && last_ns <= plan->to_ns && (!cut || calls == known->calls);
    if (cut && last_ns > plan->to_ns) last_ns = known->last_cut_ns + shift_ns;
    thread->end_ns = last_ns;
    return true;
}

static bool put_loop(struct extending *extending, uint64_t loop) {
    const struct loop_plan *plan = extending->plan;
    uint64_t first_event = plan->end_event + (loop - 1) * plan->rows;
    memcpy(extending->before, extending->number, plan->head_threads * sizeof *extending->before);
    for (uint32_t i = 0; i < plan->head_threads; i++) {
        const struct loop_thread *known = &plan->threads[i];
        if (known->kind != LOOP_THREAD_LEAVES || known->partner == MATCH_NONE) continue;
        extending->number[i] = extending->before[known->partner];
        // It ends without a further call.
        uint64_t end_ns = extending->facts->threads[i].end_ns + loop * (plan->until_ns - plan->from_ns);
        struct ht_thread *thread = &extending->list[extending->number[i]];
        if (known->first_row != UINT64_MAX || end_ns > plan->to_ns) continue;
        thread->ended = true;
        thread->end_ns = end_ns;
    }
    for (size_t i = 0; i < extending->order_count; i++)
        if (!put_part(extending, extending->order[i], first_event, loop * (plan->until_ns - plan->from_ns),
                      loop == plan->loops))
            return false;
    return true;
}

struct ht_thread *loop_threads_extended(const struct loop_plan *plan, const struct ht_trace_facts *facts,
                                        size_t *count) {
    size_t room = plan->head_threads + 1;
    struct extending extending = {.plan = plan,
                                  .facts = facts,
                                  .number = calloc(room, sizeof(uint32_t)),
                                  .before = calloc(room, sizeof(uint32_t)),
                                  .order = calloc(room, sizeof(uint32_t))};
    bool made = extending.number && extending.before && extending.order && put_head(&extending);
    for (uint32_t i = 0; made && i < plan->head_threads; i++)
        if (plan->threads[i].first_row != UINT64_MAX) extending.order[extending.order_count++] = i;
    if (made && extending.order_count)
        qsort_r(extending.order, extending.order_count, sizeof *extending.order, by_first_row, plan->threads);
    for (uint64_t loop = 1; made && loop <= plan->loops; loop++) made = put_loop(&extending, loop);
    free(extending.number);
    free(extending.before);
    free(extending.order);
    *count = extending.count;
    if (made) return extending.list;
    free(extending.list);
    return NULL;
}
