// SPDX-License-Identifier: Apache-2.0
#include "random_trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_writer.h"

enum { EVENTS_MAX = 6000, LARGE_BYTES = 64 << 10, NOBODY = STRESS_THREADS_MAX };

struct trace_shape trace_shape_of(uint64_t seed) {
    static const uint64_t steps_ns[] = {0, 10, 1000, 30000, 200000};
    static const uint64_t pauses_ns[] = {0, 50000, 3000000, 80000000};
    uint64_t random = seed;
    struct trace_shape shape = {.seed = seed};
    shape.threads = 1 + stress_below(&random, stress_chance(&random, 50) ? 6 : STRESS_THREADS_MAX);
    shape.events = 100 + stress_below(&random, stress_chance(&random, 70) ? 1500 : EVENTS_MAX - 100);
    shape.live = 1 + stress_below(&random, stress_chance(&random, 50) ? 10 : 300);
    shape.sharing_percent = stress_chance(&random, 30) ? 100 : stress_below(&random, 60);
    shape.stay_percent = stress_chance(&random, 30) ? 99 : stress_below(&random, 95);
    shape.section_events = stress_chance(&random, 20) ? shape.events : 50 + stress_below(&random, 700);
    shape.step_ns = steps_ns[stress_below(&random, 5)];
    shape.pause_ns = pauses_ns[stress_below(&random, 4)];
    shape.pause_one_in = 10 + stress_below(&random, 500);
    shape.filled = stress_chance(&random, 30);
    shape.inherited = stress_chance(&random, 25) ? 1 + stress_below(&random, shape.events / 2) : 0;
    return shape;
}

void trace_shape_text(const struct trace_shape *s, char *text, size_t room) {
    snprintf(text, room,
             "%u threads, %u events, sections of %u, %u live, %u %% shared, %u %% stay, %" PRIu64
             " ns and %" PRIu64 " ns apart, %u inherited%s",
             s->threads, s->events, s->section_events, s->live, s->sharing_percent, s->stay_percent,
             s->step_ns, s->pause_ns, s->inherited, s->filled ? ", filled bit by bit" : "");
}

struct block {
    bool live;
    uint32_t owner;
};

struct making {
    const struct trace_shape *shape;
    struct ht_trace_writer *writer;
    uint64_t random, time_ns;
    uint32_t slots, live, born, thread;  // slots 1 to slots are used
    struct block blocks[EVENTS_MAX + 2];
    uint32_t free_slots[EVENTS_MAX + 2], free_count;
    uint32_t quiet[STRESS_THREADS_MAX];  // percent of its turns that a thread leaves to others
    struct ht_thread rows[STRESS_THREADS_MAX];
};

static uint32_t below(struct making *m, uint32_t limit) { return stress_below(&m->random, limit); }
static bool chance(struct making *m, uint32_t percent) { return stress_chance(&m->random, percent); }

static uint32_t fresh_slot(struct making *m, uint32_t owner) {
    bool reuse = m->free_count && chance(m, 80);
    uint32_t slot = reuse ? m->free_slots[--m->free_count] : ++m->slots;
    m->blocks[slot] = (struct block){.live = true, .owner = owner};
    m->live++;
    return slot;
}

// A slot with a live block that the thread may have, or 0.
static uint32_t live_slot(struct making *m) {
    bool any = chance(m, m->shape->sharing_percent);
    for (int tries = 0; m->slots && tries < 20; tries++) {
        uint32_t slot = 1 + below(m, m->slots);
        if (m->blocks[slot].live && (any || m->blocks[slot].owner == m->thread)) return slot;
    }
    return 0;
}

static uint64_t some_size(struct making *m) {
    uint32_t kind = below(m, 100);
    if (kind < 80) return below(m, 200);
    return kind < 97 ? below(m, 4000) : LARGE_BYTES + below(m, 4 * LARGE_BYTES);
}

static void put(struct making *m, enum ht_function function, enum ht_variant variant, uint32_t slot,
                uint64_t size, uint64_t extra) {
    ht_trace_put_event(m->writer, ht_op(function, variant), m->thread, m->time_ns, slot, false, size, extra);
}

// Seen with ever more pages for some time, which may be longer than it lives.
static void fill(struct making *m, uint64_t event, uint64_t bytes) {
    uint64_t time_ns = m->time_ns, pages = 0;
    if (!m->shape->filled || bytes < LARGE_BYTES) return;
    ht_trace_put_residency(m->writer, &(struct ht_residency){event, 0, bytes / 4096});
    for (uint32_t i = 0; i < 4 && pages < bytes / 4096; i++) {
        time_ns += below(m, 2000000);
        pages += 1 + below(m, (uint32_t)(bytes / 8192));
        ht_trace_put_residency_step(m->writer, &(struct ht_residency_step){event, time_ns, pages});
    }
}

static void allocate(struct making *m) {
    uint64_t size = some_size(m), event = ht_trace_next_event(m->writer);
    switch (below(m, 10)) {
    case 0: put(m, HT_CALLOC, HT_PLAIN, fresh_slot(m, m->thread), size, 1 + below(m, 3)); break;
    case 1: put(m, HT_REALLOC, HT_NULL, fresh_slot(m, m->thread), size, 0); break;
    case 2: put(m, HT_ALIGNED_ALLOC, HT_PLAIN, fresh_slot(m, m->thread), size, 16u << below(m, 9)); break;
    default: put(m, HT_MALLOC, HT_PLAIN, fresh_slot(m, m->thread), size, 0); fill(m, event, size);
    }
}

static void change_or_free(struct making *m, uint32_t slot) {
    if (chance(m, 25)) {
        put(m, HT_REALLOC, HT_PLAIN, slot, 1 + some_size(m), 0);
        if (chance(m, 50)) m->blocks[slot].owner = m->thread;
        return;
    }
    put(m, HT_FREE, HT_PLAIN, slot, 0, 0);
    m->blocks[slot].live = false;
    m->free_slots[m->free_count++] = slot;
    m->live--;
}

// Nothing is replayed of a call that failed, and a thread may have done nothing else.
static void put_odd(struct making *m) {
    if (chance(m, 50)) put(m, HT_FREE, HT_NULL, 0, 0, 0);
    else put(m, HT_MALLOC, HT_FAILED, 0, 1ull << 50, 0);
}

// Threads are born one after the other, some of them long after the others.
static void turn_to_thread(struct making *m, uint32_t event) {
    uint32_t due = m->shape->threads * 2u * event / m->shape->events;
    if (m->born < m->shape->threads && (m->born == 0 || (m->born <= due && chance(m, 30)))) {
        m->thread = m->born++;
        return;
    }
    if (chance(m, m->shape->stay_percent)) return;
    for (int tries = 0; tries < 10; tries++) {
        m->thread = below(m, m->born);
        if (!chance(m, m->quiet[m->thread])) return;
    }
}

static void pass_time(struct making *m) {
    if (m->shape->step_ns) m->time_ns += below(m, (uint32_t)(2 * m->shape->step_ns));
    if (m->shape->pause_ns && below(m, m->shape->pause_one_in) == 0) {
        m->time_ns += below(m, (uint32_t)(2 * m->shape->pause_ns));
    }
}

static void put_events(struct making *m) {
    struct ht_trace_position position;
    struct ht_error error = {0};
    for (uint32_t i = 0; i < m->shape->inherited; i++) {
        put(m, HT_INHERIT, HT_PLAIN, fresh_slot(m, NOBODY), some_size(m), 0);
    }
    for (uint32_t i = m->shape->inherited; i < m->shape->events; i++) {
        turn_to_thread(m, i);
        pass_time(m);
        uint32_t slot = chance(m, m->live < m->shape->live ? 30 : 70) ? live_slot(m) : 0;
        if (chance(m, 3)) put_odd(m);
        else if (slot) change_or_free(m, slot);
        else allocate(m);
        m->rows[m->thread].end_ns = m->time_ns;
        // A section ends here.
        if (i % m->shape->section_events == 0) ht_trace_checkpoint(m->writer, &position, &error);
    }
}

static void put_threads(struct making *m) {
    for (uint32_t i = 0; i < m->born; i++) {
        struct ht_thread *row = &m->rows[i];
        row->tid = 100 + i;
        row->ended = chance(m, 50);
        // Some end later than their last op, and one in a while before it, which no recorder says.
        if (chance(m, 30)) row->end_ns += below(m, 5000000);
        else if (chance(m, 10)) row->end_ns /= 2;
    }
}

int trace_of_shape(const char *path, struct trace_shape *shape, struct ht_error *error) {
    struct making *m = calloc(1, sizeof *m);
    if (!m) return ht_error_system(error, path, "making a trace");
    m->shape = shape;
    m->random = shape->seed ^ 0x5eed;
    for (int i = 0; i < STRESS_THREADS_MAX; i++) m->quiet[i] = chance(m, 30) ? 99 : below(m, 50);
    // One that lasts can end a section wherever it is told to.
    m->writer = ht_trace_create_lasting(path, 1, 1, error);
    int failed = m->writer ? 0 : -1;
    if (!failed) {
        ht_trace_put_context(m->writer, "{}");
        put_events(m);
        put_threads(m);
        shape->end_ns = m->time_ns + below(m, 3000000);
        failed = ht_trace_finish(m->writer, m->rows, m->born, "{}", NULL, error);
    }
    free(m);
    return failed;
}
