// SPDX-License-Identifier: Apache-2.0
// Writes artificial traces for trying the replay engine: one thread, or producers and consumers that
// reallocate and free each other's blocks.
//
//     make_trace OUT.bin EVENTS LIVE THREADS SEED [STEP_NS [apart]]
//
// LIVE: about how many blocks live at once. STEP_NS: trace time between events. apart: threads leave each
// other's blocks alone.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "random_numbers.h"
#include "trace_writer.h"

enum { THREADS_MAX = 1024 };

static struct ht_random numbers;

static uint32_t below(uint32_t limit) { return ht_random_below(&numbers, limit); }

struct stack {
    uint32_t *slots;
    size_t count, room;
};

static void push(struct stack *stack, uint32_t slot) {
    if (!ht_grow(&stack->slots, &stack->room, stack->count + 1, sizeof *stack->slots)) exit(1);
    stack->slots[stack->count++] = slot;
}

struct made {
    struct ht_trace_writer *writer;
    struct stack live[THREADS_MAX];  // the first is of all threads, unless they are apart
    struct stack own_free[THREADS_MAX];
    bool apart;
    uint32_t slots, threads;
    uint64_t time_ns, step_ns;
    struct ht_thread rows[THREADS_MAX];
};

// Mostly small sizes, a few large ones, as programs have them.
static uint64_t some_size(void) {
    uint32_t kind = below(1000);
    if (kind < 800) return 1 + below(128);
    if (kind < 980) return 1 + below(2000);
    if (kind < 999) return 1 + below(30000);
    return 1 + below(400000);
}

static void put_event(struct made *made, uint8_t op, uint32_t thread, uint32_t slot, uint64_t size,
                      uint64_t extra) {
    struct ht_thread *row = &made->rows[thread];
    if (row->calls++ == 0) {
        row->first_event = ht_trace_next_event(made->writer);
        row->start_ns = made->time_ns;
    }
    row->end_ns = made->time_ns;
    ht_trace_put_event(made->writer, op, thread, made->time_ns, slot, true, size, extra);
    made->time_ns += made->step_ns;
}

static struct stack *live_of(struct made *made, uint32_t thread) {
    return &made->live[made->apart ? thread : 0];
}

static void allocate(struct made *made, uint32_t thread) {
    struct stack *own = &made->own_free[thread];
    uint32_t slot = own->count ? own->slots[--own->count] : ++made->slots;
    uint64_t size = some_size();
    uint32_t kind = below(100);
    if (kind < 90) put_event(made, ht_op(HT_MALLOC, HT_PLAIN), thread, slot, size, 0);
    else if (kind < 96) put_event(made, ht_op(HT_CALLOC, HT_PLAIN), thread, slot, 1 + size / 8, 8);
    else if (kind < 98) put_event(made, ht_op(HT_REALLOC, HT_NULL), thread, slot, size, 0);
    else put_event(made, ht_op(HT_POSIX_MEMALIGN, HT_PLAIN), thread, slot, size, 16u << below(4));
    push(live_of(made, thread), slot);
}

static void change_or_free(struct made *made, uint32_t thread) {
    struct stack *live = live_of(made, thread);
    size_t at = below((uint32_t)live->count);
    uint32_t slot = live->slots[at];
    if (below(100) < 8) {
        put_event(made, ht_op(HT_REALLOC, HT_PLAIN), thread, slot, some_size(), 0);
        return;
    }
    put_event(made, ht_op(HT_FREE, HT_PLAIN), thread, slot, 0, 0);
    live->slots[at] = live->slots[--live->count];
    push(&made->own_free[thread], slot);
}

static void make(struct made *made, uint64_t events, size_t live) {
    if (made->apart) live /= made->threads;
    // Threads come one after the other during the first tenth, and a third of them end before the trace does.
    for (uint64_t i = 0; i < events; i++) {
        uint64_t begun = 1 + i * 10 * made->threads / events;
        uint32_t threads = begun < made->threads ? (uint32_t)begun : made->threads;
        uint32_t thread = below(threads);
        if (thread % 3 == 2 && i > events / 2) thread = 0;
        size_t count = live_of(made, thread)->count;
        if (count < 2 || below(2 * (uint32_t)live) >= count) allocate(made, thread);
        else change_or_free(made, thread);
    }
}

int main(int argc, char **argv) {
    static struct made made;
    struct ht_error error = {0};
    if (argc < 6) {
        fprintf(stderr, "usage: make_trace OUT.bin EVENTS LIVE THREADS SEED [STEP_NS [apart]]\n");
        return 2;
    }
    made.threads = (uint32_t)atoi(argv[4]);
    numbers.state = strtoull(argv[5], NULL, 10);
    made.apart = argc > 7 && !strcmp(argv[7], "apart");
    made.step_ns = argc > 6 ? strtoull(argv[6], NULL, 10) : 100;
    if (made.threads < 1 || made.threads > THREADS_MAX) return 2;
    made.writer = ht_trace_create(argv[1], 1, 1, &error);
    if (!made.writer) {
        fprintf(stderr, "make_trace: %s\n", error.message);
        return 1;
    }
    ht_trace_put_context(made.writer,
                         "{\"command\": \"make_trace\", \"allocator_name\": \"glibc\", \"pid\": 100}");
    make(&made, strtoull(argv[2], NULL, 10), (size_t)strtoull(argv[3], NULL, 10));
    for (uint32_t i = 0; i < made.threads; i++) {
        made.rows[i].tid = 100 + i;
        made.rows[i].ended = i % 3 == 2;
        snprintf(made.rows[i].name, sizeof made.rows[i].name, "thread-%u", i % THREADS_MAX);
    }
    char totals[64];
    snprintf(totals, sizeof totals, "{\"events\": %llu}",
             (unsigned long long)ht_trace_next_event(made.writer));
    if (ht_trace_finish(made.writer, made.rows, made.threads, totals, NULL, &error)) {
        fprintf(stderr, "make_trace: %s\n", error.message);
        return 1;
    }
    return 0;
}
