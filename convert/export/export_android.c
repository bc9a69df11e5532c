// SPDX-License-Identifier: Apache-2.0
// Android's memory_replay text: TID: FUNCTION POINTER [OPERANDS] START_NS END_NS [PRESENT_BYTES], and
// TID: thread_done 0x0 END_NS. A trace has one time per call, which stands for both, and no addresses: each
// slot has a pointer, 16 bytes from the next one's.
#include <stdlib.h>

#include "export_format.h"

enum { POINTER_BASE = 0x10000000, POINTER_STEP = 16 };

struct android_thread {
    uint32_t tid;
    uint64_t calls_left;
    bool over;  // its end has come, but not its last call
};

struct android_state {
    struct android_thread *threads;
    size_t threads_count;
    uint32_t *ended;  // threads in order of their ends
    size_t ended_count, ended_reported;
    size_t residency_at;  // the first row that is not of an earlier event
};

static void *duplicate_threads(const struct ht_trace_facts *facts) {
    struct android_thread *threads = calloc(facts->threads_count + 1, sizeof *threads);
    for (size_t i = 0; threads && i < facts->threads_count; i++)
        threads[i] =
            (struct android_thread){.tid = facts->threads[i].tid, .calls_left = facts->threads[i].calls};
    return threads;
}

static int by_end(const void *a, const void *b, void *facts) {
    const struct ht_thread *threads = ((const struct ht_trace_facts *)facts)->threads;
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    if (threads[left].end_ns != threads[right].end_ns)
        return threads[left].end_ns < threads[right].end_ns ? -1 : 1;
    return left < right ? -1 : left > right;
}

static int by_tid_and_start(const void *a, const void *b, void *facts) {
    const struct ht_thread *threads = ((const struct ht_trace_facts *)facts)->threads;
    const struct ht_thread *left = &threads[*(const uint32_t *)a], *right = &threads[*(const uint32_t *)b];
    if (left->tid != right->tid) return left->tid < right->tid ? -1 : 1;
    return left->first_event < right->first_event ? -1 : left->first_event > right->first_event;
}

// Does a kernel tid identify each thread, at any time? Kernels reuse them, but only when the thread has
// ended; traces that were made from others' formats may have no tids.
static bool tids_are_unique(const struct ht_trace_facts *facts, uint32_t *order) {
    size_t count = facts->threads_count;
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    qsort_r(order, count, sizeof *order, by_tid_and_start, (void *)facts);
    for (size_t i = 0; i < count; i++) {
        const struct ht_thread *thread = &facts->threads[order[i]];
        if (thread->tid == 0 || thread->tid > INT32_MAX) return false;
        if (i == 0) continue;
        const struct ht_thread *before = &facts->threads[order[i - 1]];
        if (before->tid == thread->tid && (!before->ended || before->end_ns > thread->start_ns)) return false;
    }
    return true;
}

static void end(struct exporter *exporter) {
    struct android_state *state = exporter->own;
    if (!state) return;
    free(state->threads);
    free(state->ended);
    free(state);
    exporter->own = NULL;
}

static bool begin(struct exporter *exporter) {
    const struct ht_trace_facts *facts = &exporter->facts;
    struct android_state *state = exporter->own = calloc(1, sizeof *state);
    if (!state) return false;
    state->threads_count = facts->threads_count;
    state->threads = duplicate_threads(facts);
    state->ended = calloc(facts->threads_count + 1, sizeof *state->ended);
    if (!state->threads || !state->ended) return false;
    if (!tids_are_unique(facts, state->ended))
        for (size_t i = 0; i < facts->threads_count; i++) state->threads[i].tid = (uint32_t)i + 1;
    for (size_t i = 0; i < facts->threads_count; i++)
        if (facts->threads[i].ended) state->ended[state->ended_count++] = (uint32_t)i;
    qsort_r(state->ended, state->ended_count, sizeof *state->ended, by_end, (void *)facts);
    return true;
}

static void put_thread(struct export_text *text, const struct android_thread *thread) {
    export_text_line(text);
    export_put_decimal(text, thread->tid);
    EXPORT_PUT_LITERAL(text, ": ");
}

static void put_done(struct exporter *exporter, uint32_t thread) {
    struct android_state *state = exporter->own;
    put_thread(&exporter->text, &state->threads[thread]);
    EXPORT_PUT_LITERAL(&exporter->text, "thread_done 0x0 ");
    export_put_decimal(&exporter->text, exporter->facts.threads[thread].end_ns);
    export_put_char(&exporter->text, '\n');
    exporter->lines++;
}

// Threads that have ended by now are done; one that still calls, from a destructor say, is done with its
// last.
static void put_ends(struct exporter *exporter, uint64_t now_ns) {
    struct android_state *state = exporter->own;
    while (state->ended_reported < state->ended_count) {
        uint32_t thread = state->ended[state->ended_reported];
        if (exporter->facts.threads[thread].end_ns > now_ns) return;
        state->ended_reported++;
        if (state->threads[thread].calls_left) state->threads[thread].over = true;
        else put_done(exporter, thread);
    }
}

static void put_pointer(struct export_text *text, uint32_t slot) {
    EXPORT_PUT_LITERAL(text, " 0x");
    export_put_hexadecimal(text, slot ? POINTER_BASE + (uint64_t)slot * POINTER_STEP : 0);
}

static void put_number(struct export_text *text, uint64_t number) {
    export_put_char(text, ' ');
    export_put_decimal(text, number);
}

// The pages that were resident at the end of the object born by this event, plus one; 0 where nobody knows.
static uint64_t pages_of_birth(struct exporter *exporter, uint64_t event) {
    struct android_state *state = exporter->own;
    const struct ht_trace_facts *facts = &exporter->facts;
    while (state->residency_at < facts->residency_count &&
           facts->residency[state->residency_at].event < event)
        state->residency_at++;
    bool known =
        state->residency_at < facts->residency_count && facts->residency[state->residency_at].event == event;
    return known ? facts->residency[state->residency_at].pages_after + 1 : 0;
}

// What the old object had resident, where that is known and the call says it; a birth sets what its object
// will have.
static uint64_t swap_pages(struct exporter *exporter, const struct export_call *call) {
    enum export_action action = call->action;
    if (action == EXPORT_FREE_NULL || exporter->facts.residency_count == 0) return 0;
    uint64_t *pages = export_number(exporter, call->slot);
    bool ends = action == EXPORT_FREE || action == EXPORT_RELEASE || action == EXPORT_REALLOC;
    uint64_t before = ends ? *pages : 0;
    bool born = action != EXPORT_FREE && action != EXPORT_RELEASE;
    uint64_t after = born ? pages_of_birth(exporter, call->event) : 0;
    if (*pages != after) *pages = after;
    return before;
}

static void put_function(struct export_text *text, const struct export_call *call) {
    switch (call->action) {
    case EXPORT_MALLOC:
        EXPORT_PUT_LITERAL(text, "malloc");
        put_pointer(text, call->slot);
        break;
    case EXPORT_CALLOC:
        EXPORT_PUT_LITERAL(text, "calloc");
        put_pointer(text, call->slot);
        put_number(text, call->count);
        break;
    case EXPORT_MEMALIGN:
        EXPORT_PUT_LITERAL(text, "memalign");
        put_pointer(text, call->slot);
        put_number(text, call->alignment);
        break;
    case EXPORT_REALLOC:
    case EXPORT_REALLOC_NULL:
    case EXPORT_RELEASE:
        EXPORT_PUT_LITERAL(text, "realloc");
        put_pointer(text, call->action == EXPORT_RELEASE ? 0 : call->slot);
        put_pointer(text, call->action == EXPORT_REALLOC_NULL ? 0 : call->slot);
        break;
    case EXPORT_FREE:
    case EXPORT_FREE_NULL:
        EXPORT_PUT_LITERAL(text, "free");
        put_pointer(text, call->action == EXPORT_FREE ? call->slot : 0);
        return;
    case EXPORT_NOTHING: return;
    }
    put_number(text, call->size);
}

static void put_call(struct exporter *exporter, const struct export_call *call) {
    struct android_state *state = exporter->own;
    if (call->thread >= state->threads_count) {
        exporter->wrong = "expected a row in the threads section for every thread";
        return;
    }
    struct android_thread *thread = &state->threads[call->thread];
    put_ends(exporter, call->time_ns);
    if (call->action != EXPORT_NOTHING) {
        struct export_text *text = &exporter->text;
        uint64_t pages_plus_1 = swap_pages(exporter, call);
        put_thread(text, thread);
        put_function(text, call);
        put_number(text, call->time_ns);
        put_number(text, call->time_ns);
        if (pages_plus_1) put_number(text, (pages_plus_1 - 1) * exporter->page_bytes);
        export_put_char(text, '\n');
        exporter->lines++;
    }
    if (call->pseudo || thread->calls_left == 0) return;
    thread->calls_left--;
    if (thread->calls_left == 0 && thread->over) put_done(exporter, call->thread);
}

static void finish(struct exporter *exporter) {
    if (!exporter->wrong) put_ends(exporter, UINT64_MAX);
}

const struct export_format export_android = {
    .name = "android",
    .suffix = ".android.txt",
    .unsaid = "addresses (made up from slots), ends of calls, thread names, samples",
    .abilities = EXPORT_HAS_CALLOC | EXPORT_HAS_MEMALIGN | EXPORT_HAS_REALLOC_NULL | EXPORT_HAS_RELEASE |
                 EXPORT_HAS_FREE_NULL | EXPORT_HAS_SIZE_0,
    .begin = begin,
    .call = put_call,
    .finish = finish,
    .end = end};
