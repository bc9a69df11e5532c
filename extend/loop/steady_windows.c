// SPDX-License-Identifier: Apache-2.0
#include "steady_windows.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ops.h"
#include "slot_table.h"
#include "trace_facts.h"

static const uint64_t SHORTEST_WINDOW_NS = 1000000;
// Frees for each allocation from which on a program is ending: a steady load makes as many blocks as it frees.
static const double ENDING_FREES = 1.5;
// What it leaves of its blocks or bytes at most; and the share of the trace, up to which it may be anything.
static const double ENDING_LEAVES = 0.75, ENDING_SHORT = 1.0 / 16;

struct reading {
    struct ht_op_shape shape[256];
    struct slot_table blocks;  // live bytes plus one by slot: 0 where there is no object
    struct steady_windows *windows;
    uint64_t live_bytes, live_objects, at_ns;
};

// Two windows become one.
static void halve(struct steady_windows *windows) {
    for (size_t i = 0; i < STEADY_WINDOWS_MAX / 2; i++) {
        const struct steady_window *a = &windows->list[2 * i], *b = a + 1;
        struct steady_window both = {.live_bytes = a->live_bytes + b->live_bytes,
                                     .live_objects = a->live_objects + b->live_objects,
                                     .calls = a->calls + b->calls,
                                     .frees = a->frees + b->frees,
                                     .foreign_frees = a->foreign_frees + b->foreign_frees};
        for (size_t class = 0; class < STEADY_SIZE_CLASSES; class ++)
            both.sizes[class] = a->sizes[class] + b->sizes[class];
        windows->list[i] = both;
    }
    for (size_t i = STEADY_WINDOWS_MAX / 2; i < STEADY_WINDOWS_MAX; i++)
        windows->list[i] = (struct steady_window){0};
    windows->window_ns *= 2;
}

// What is live stays so until then. Until the end the means of a window are sums over its ns.
static void pass_time(struct reading *reading, uint64_t until_ns) {
    struct steady_windows *windows = reading->windows;
    while (until_ns / windows->window_ns >= STEADY_WINDOWS_MAX) halve(windows);
    while (reading->at_ns < until_ns) {
        struct steady_window *window = &windows->list[reading->at_ns / windows->window_ns];
        uint64_t ns = windows->window_ns - reading->at_ns % windows->window_ns;
        if (ns > until_ns - reading->at_ns) ns = until_ns - reading->at_ns;
        window->live_bytes += (double)reading->live_bytes * (double)ns;
        window->live_objects += (double)reading->live_objects * (double)ns;
        reading->at_ns += ns;
    }
}

static unsigned size_class(uint64_t bytes) {
    return bytes > 1 ? 64u - (unsigned)__builtin_clzll(bytes - 1) : 0;
}

// Returns what is wrong with the event, or NULL.
static const char *take_event(struct reading *reading, const struct ht_events *events, uint32_t row) {
    uint8_t op = events->op[row];
    const struct ht_op_shape shape = reading->shape[op];
    pass_time(reading, events->time_ns[row]);
    struct steady_window *window =
        &reading->windows->list[events->time_ns[row] / reading->windows->window_ns];
    window->calls += ht_op_is_call(op) && !shape.query;
    bool foreign = ht_op_variant(op) == HT_FOREIGN;
    window->foreign_frees += foreign;
    window->frees += foreign || shape.ends_object;
    if (!shape.slot) return NULL;
    uint64_t *block = (uint64_t *)reading->blocks.items + events->slot[row];
    if (shape.query) return *block ? NULL : ht_found("expected a slot with a live object", events->slot[row]);
    if (shape.makes_object == (*block != 0))
        return ht_found(*block ? "expected an allocation into a free slot"
                               : "expected a slot with a live object",
                        events->slot[row]);
    if (*block) reading->live_bytes -= *block - 1;
    reading->live_objects -= *block != 0;
    *block = 0;
    if (shape.ends_object) return NULL;
    uint64_t bytes = ht_event_bytes(events, row);
    if (bytes > INT64_MAX) return ht_found("expected a size below 2^63", bytes);
    *block = bytes + 1;
    reading->live_bytes += bytes;
    reading->live_objects++;
    if (ht_op_is_call(op)) window->sizes[size_class(bytes) % STEADY_SIZE_CLASSES]++;
    return NULL;
}

static int take_section(struct reading *reading, struct ht_trace_reader *reader, size_t i, const char *path,
                        struct ht_error *error) {
    struct ht_events events;
    if (ht_trace_events(reader, i, &events, error)) return -1;
    if (!slot_table_reach(&reading->blocks, events.slot, events.rows))
        return ht_error_memory(error, path, "cannot follow the heap");
    for (uint32_t row = 0; row < events.rows; row++) {
        const char *wrong = take_event(reading, &events, row);
        if (wrong)
            return ht_error_input(error, path, ht_trace_section(reader, i)->offset, "event %" PRIu64 ": %s",
                                  events.first_event + row, wrong);
    }
    return 0;
}

static struct steady_window *window_at(struct steady_windows *windows, uint64_t ns) {
    return &windows->list[ns / windows->window_ns < STEADY_WINDOWS_MAX ? ns / windows->window_ns
                                                                       : STEADY_WINDOWS_MAX - 1];
}

// The window from which on frees outweigh allocations most, up to the last one. It is not in the first half.
static size_t find_ending(const struct steady_windows *windows) {
    double sum = 0, greatest = 0;
    size_t ending = windows->all;
    for (size_t i = windows->all; i-- > windows->all / 2;) {
        const struct steady_window *window = &windows->list[i];
        double made = 0;
        for (size_t class = 0; class < STEADY_SIZE_CLASSES; class ++) made += window->sizes[class];
        sum += (double)window->frees - ENDING_FREES * made;
        if (sum <= greatest) continue;
        greatest = sum;
        ending = i;
    }
    if ((double)(windows->all - ending) <= ENDING_SHORT * (double)windows->all || ending == 0) return ending;
    const struct steady_window *before = &windows->list[ending - 1], *last = &windows->list[windows->all - 1];
    bool takes_down = last->live_bytes <= ENDING_LEAVES * before->live_bytes ||
                      last->live_objects <= ENDING_LEAVES * before->live_objects;
    return takes_down ? ending : windows->all;
}

// How long the program went on without a call, and its threads: one of which nothing says that it ended lives on.
static int take_facts(struct reading *reading, struct ht_trace_reader *reader, struct ht_error *error) {
    struct steady_windows *windows = reading->windows;
    struct ht_trace_facts facts;
    if (ht_trace_facts(reader, &facts, error)) return -1;
    if (facts.samples_count) pass_time(reading, facts.samples[facts.samples_count - 1].time_ns);
    for (size_t i = 0; i < facts.threads_count; i++) {
        const struct ht_thread *thread = &facts.threads[i];
        window_at(windows, thread->start_ns)->threads_begun++;
        if (thread->ended) window_at(windows, thread->end_ns)->threads_ended++;
    }
    ht_trace_facts_free(&facts);
    return 0;
}

int steady_windows_read(struct ht_trace_reader *reader, const char *path, struct steady_windows *windows,
                        struct ht_error *error) {
    *windows = (struct steady_windows){.window_ns = SHORTEST_WINDOW_NS,
                                       .list = calloc(STEADY_WINDOWS_MAX, sizeof *windows->list)};
    if (!windows->list) return ht_error_memory(error, path, "cannot follow the heap");
    struct reading reading = {.blocks = slot_table_of(sizeof(uint64_t)), .windows = windows};
    for (unsigned op = 0; op < 256; op++) reading.shape[op] = ht_op_shape((uint8_t)op);
    int status = 0;
    for (size_t i = 0; i < ht_trace_sections(reader) && !status; i++)
        if (ht_trace_section(reader, i)->kind == HT_SECTION_EVENTS)
            status = take_section(&reading, reader, i, path, error);
    slot_table_free(&reading.blocks);
    if (!status) status = take_facts(&reading, reader, error);
    windows->end_ns = reading.at_ns;
    windows->all = reading.at_ns / windows->window_ns;
    for (size_t i = 0; i < windows->all; i++) {
        windows->list[i].live_bytes /= (double)windows->window_ns;
        windows->list[i].live_objects /= (double)windows->window_ns;
    }
    windows->count = find_ending(windows);
    if (status) steady_windows_free(windows);
    return status;
}

void steady_windows_free(struct steady_windows *windows) {
    free(windows->list);
    *windows = (struct steady_windows){0};
}
