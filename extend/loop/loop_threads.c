// SPDX-License-Identifier: Apache-2.0
#include "loop_threads.h"

#include <assert.h>
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

static int by_name(const void *a, const void *b, void *context) {
    const struct ht_thread *threads = context;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int order = strcmp(threads[left].name, threads[right].name);
    return order ? order : (left > right) - (left < right);
}

// Those of one name, by age, of one end of the stretch: they stay, or are one of the first so many that leave or arrive.
struct group {
    const struct loop_plan *plan;
    const uint32_t *thread;
    size_t count, at;
    enum loop_thread_kind kind;
    size_t left;
};

static uint32_t next_of(struct group *group) {
    while (group->at < group->count) {
        uint32_t i = group->thread[group->at++];
        enum loop_thread_kind kind = group->plan->threads[i].kind;
        if (kind == LOOP_THREAD_STAYS) return i;
        if (kind != group->kind || !group->left) continue;
        group->left--;
        return i;
    }
    return MATCH_NONE;
}

static void plan_name(struct loop_plan *plan, const uint32_t *thread, size_t count) {
    size_t leave = 0, arrive = 0;
    for (size_t i = 0; i < count; i++) {
        leave += plan->threads[thread[i]].kind == LOOP_THREAD_LEAVES;
        arrive += plan->threads[thread[i]].kind == LOOP_THREAD_ARRIVES;
    }
    size_t both = leave < arrive ? leave : arrive;
    struct group before = {plan, thread, count, 0, LOOP_THREAD_LEAVES, both};
    struct group after = {plan, thread, count, 0, LOOP_THREAD_ARRIVES, both};
    for (uint32_t role; (role = next_of(&before)) != MATCH_NONE;) {
        uint32_t player = next_of(&after);
        assert(player != MATCH_NONE);
        plan->threads[role].player = player;
        plan->threads[player].plays = role;
    }
}

// Threads of one name are alike: those that are there at the beginning are played by those that are there at the end, by rank of age,
// as blocks are. So a thread ends at the age at which one ended in the stretch, and none lives for ever beside those that do not.
bool loop_threads_plan(struct loop_plan *plan, const struct ht_trace_facts *facts) {
    uint32_t count = plan->head_threads, *order = malloc(((size_t)count + 1) * sizeof *order);
    if (!order) return false;
    for (uint32_t i = 0; i < count; i++) {
        plan->threads[i].kind = kind_of(plan, &facts->threads[i], &plan->threads[i]);
        plan->threads[i].player = plan->threads[i].plays = MATCH_NONE;
        order[i] = i;
    }
    if (count) qsort_r(order, count, sizeof *order, by_name, facts->threads);
    for (uint32_t first = 0, end = 0; first < count; first = end) {
        const char *name = facts->threads[order[first]].name;
        while (end < count && !strcmp(facts->threads[order[end]].name, name)) end++;
        plan_name(plan, order + first, end - first);
    }
    free(order);
    return true;
}

struct extending {
    const struct loop_plan *plan;
    const struct ht_trace_facts *facts;
    struct ht_thread *list;
    size_t count, room;
    uint32_t *number;  // by thread of the stretch: who plays it in this repetition; MATCH_NONE: nobody yet
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
    if (extending->number[i] == MATCH_NONE) {
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
        extending->number[i] = known->player == MATCH_NONE ? MATCH_NONE : extending->before[known->player];
        // It ends without a further call.
        uint64_t end_ns = extending->facts->threads[i].end_ns + loop * (plan->until_ns - plan->from_ns);
        if (known->kind != LOOP_THREAD_LEAVES || extending->number[i] == MATCH_NONE ||
            known->first_row != UINT64_MAX || end_ns > plan->to_ns)
            continue;
        struct ht_thread *thread = &extending->list[extending->number[i]];
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
