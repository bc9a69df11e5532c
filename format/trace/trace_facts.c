// SPDX-License-Identifier: Apache-2.0
#include "trace_facts.h"

#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "sorted.h"

enum { COLUMNS_MAX = 8 };

// The section that is read, and where its values go, column after column.
struct reading {
    struct ht_unpacker *unpacker;
    struct ht_columns columns;
    size_t rows, unit_ns;
    uint64_t *values;
};

// Reads the columns 1..columns.
static const char *read_columns(const struct reading *reading, uint8_t columns) {
    const char *wrong = NULL;
    for (uint8_t column = 0; column < columns && !wrong; column++)
        wrong = ht_column_u64(reading->unpacker, &reading->columns, column + 1,
                              reading->values + column * reading->rows, reading->rows);
    return wrong;
}

static const char *take_samples(const struct reading *reading, struct ht_trace_facts *facts) {
    size_t n = reading->rows, unit = reading->unit_ns;
    const uint64_t *v = reading->values;
    const char *wrong = read_columns(reading, 6);
    if (wrong || n == 0) return wrong;
    struct ht_sample *larger = realloc(facts->samples, (facts->samples_count + n) * sizeof *larger);
    if (!larger) return "not enough memory for the samples";
    facts->samples = larger;
    for (size_t i = 0; i < n; i++)
        facts->samples[facts->samples_count++] = (struct ht_sample){
            v[i] * unit, v[n + i], v[2 * n + i], v[3 * n + i], v[4 * n + i], v[5 * n + i] != 0};
    return NULL;
}

static bool has_column(const struct reading *reading, uint8_t id) {
    struct ht_column_entry entry;
    const uint8_t *stored;
    return ht_find_column(&reading->columns, id, &entry, &stored) != NULL;
}

static const char *take_residency(const struct reading *reading, struct ht_trace_facts *facts) {
    size_t n = reading->rows;
    const uint64_t *v = reading->values;
    bool spared = has_column(reading, 4);
    const char *wrong = read_columns(reading, spared ? 4 : 3);
    if (wrong || n == 0) return wrong;
    struct ht_residency *larger = realloc(facts->residency, (facts->residency_count + n) * sizeof *larger);
    if (!larger) return "not enough memory for the residency";
    facts->residency = larger;
    for (size_t i = 0; i < n; i++)
        facts->residency[facts->residency_count++] =
            (struct ht_residency){v[i], v[n + i], v[2 * n + i], spared ? v[3 * n + i] : 0};
    return NULL;
}

static const char *take_steps(const struct reading *reading, struct ht_trace_facts *facts) {
    size_t n = reading->rows, unit = reading->unit_ns;
    const uint64_t *v = reading->values;
    bool runs = has_column(reading, 4);
    const char *wrong = read_columns(reading, runs ? 5 : 3);
    if (wrong || n == 0) return wrong;
    struct ht_residency_step *larger = realloc(facts->steps, (facts->steps_count + n) * sizeof *larger);
    if (!larger) return "not enough memory for the residency's steps";
    facts->steps = larger;
    for (size_t i = 0; i < n; i++)
        facts->steps[facts->steps_count++] = (struct ht_residency_step){
            v[i], v[n + i] * unit, v[2 * n + i], runs ? v[3 * n + i] : 0, runs ? v[4 * n + i] : 0};
    return NULL;
}

static const char *take_threads(const struct reading *reading, struct ht_trace_facts *facts) {
    size_t n = reading->rows, unit = reading->unit_ns;
    const uint64_t *v = reading->values;
    const char *wrong = read_columns(reading, 8);
    if (wrong || n == 0) return wrong;
    struct ht_thread *larger = realloc(facts->threads, (facts->threads_count + n) * sizeof *larger);
    if (!larger) return "not enough memory for the threads";
    facts->threads = larger;
    for (size_t i = 0; i < n; i++) {
        struct ht_thread thread = {.tid = (uint32_t)v[i],
                                   .first_event = v[n + i],
                                   .start_ns = v[2 * n + i] * unit,
                                   .calls = v[3 * n + i],
                                   .end_ns = v[4 * n + i] * unit,
                                   .ended = v[5 * n + i] != 0};
        memcpy(thread.name, &v[6 * n + i], 8);
        memcpy(thread.name + 8, &v[7 * n + i], 8);
        facts->threads[facts->threads_count++] = thread;
    }
    return NULL;
}

// A trace that was cut short has lost its threads section: they follow from the events.
static int derive_threads(struct ht_trace_reader *reader, struct ht_trace_facts *facts,
                          struct ht_error *error) {
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &events, error)) return -1;
        for (uint32_t row = 0; row < events.rows; row++) {
            uint32_t thread = events.thread[row];
            if (thread > facts->threads_count)
                return ht_trace_bad_place(reader, i, error,
                                          ht_found("expected threads numbered by first event", thread));
            if (thread == facts->threads_count) {
                struct ht_thread *larger = realloc(facts->threads, (thread + 1) * sizeof *larger);
                if (!larger) return ht_error_memory(error, ht_trace_path(reader), "cannot count the threads");
                facts->threads = larger;
                facts->threads[facts->threads_count++] = (struct ht_thread){
                    .first_event = events.first_event + row, .start_ns = events.time_ns[row]};
            }
            facts->threads[thread].calls += ht_op_is_call(events.op[row]);
            facts->threads[thread].end_ns = events.time_ns[row];
        }
    }
    return 0;
}

static int by_event_and_time(const void *a, const void *b) {
    const struct ht_residency_step *left = a, *right = b;
    if (left->event != right->event) return left->event > right->event ? 1 : -1;
    if (left->time_ns != right->time_ns) return left->time_ns > right->time_ns ? 1 : -1;
    if (left->pages != right->pages) return left->pages > right->pages ? 1 : -1;
    return (left->first_page > right->first_page) - (left->first_page < right->first_page);
}

static const char *take_facts(const struct reading *reading, uint32_t kind, struct ht_trace_facts *facts) {
    switch (kind) {
    case HT_SECTION_SAMPLES: return take_samples(reading, facts);
    case HT_SECTION_RESIDENCY: return take_residency(reading, facts);
    case HT_SECTION_RESIDENCY_STEPS: return take_steps(reading, facts);
    default: return take_threads(reading, facts);
    }
}

static bool holds_facts(uint32_t kind) {
    return (kind >= HT_SECTION_SAMPLES && kind <= HT_SECTION_THREADS) || kind == HT_SECTION_RESIDENCY_STEPS;
}

static int read_facts(struct ht_trace_reader *reader, struct reading *reading, struct ht_trace_facts *facts,
                      struct ht_error *error) {
    uint64_t rows = 0, rows_max = HT_FACT_ROWS_FREE + HT_FACT_ROWS_PER_BYTE * ht_trace_file_bytes(reader);
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        const struct ht_section_header *header;
        const void *payload;
        if (!holds_facts(ht_trace_section(reader, i)->kind)) continue;
        if (ht_trace_stored(reader, i, &header, &payload, error)) return -1;
        reading->columns = (struct ht_columns){payload, header->payload_bytes, header->columns};
        reading->rows = header->rows;
        rows += header->rows;
        const char *wrong = rows > rows_max ? "expected fewer rows of samples, residency and threads"
                                            : take_facts(reading, header->kind, facts);
        if (wrong) return ht_trace_bad_place(reader, i, error, wrong);
    }
    return ht_trace_truncated(reader) && !facts->threads_count ? derive_threads(reader, facts, error) : 0;
}

int ht_trace_facts(struct ht_trace_reader *reader, struct ht_trace_facts *facts, struct ht_error *error) {
    const struct ht_trace_made *made = ht_trace_made(reader);
    if (made) return made->facts(made->context, facts, error);
    struct reading reading = {.unpacker = ht_unpacker_new(),
                              .unit_ns = ht_trace_time_unit_ns(reader),
                              .values = malloc((size_t)HT_SECTION_ROWS_MAX * COLUMNS_MAX * sizeof(uint64_t))};
    *facts = (struct ht_trace_facts){0};
    int status = reading.unpacker && reading.values
                     ? read_facts(reader, &reading, facts, error)
                     : ht_error_memory(error, ht_trace_path(reader), "cannot read the trace's facts");
    ht_unpacker_free(reading.unpacker);
    free(reading.values);
    if (status) {
        ht_trace_facts_free(facts);
        return -1;
    }
    if (facts->residency_count)
        qsort(facts->residency, facts->residency_count, sizeof *facts->residency, ht_by_word);
    if (facts->steps_count) qsort(facts->steps, facts->steps_count, sizeof *facts->steps, by_event_and_time);
    return 0;
}

void ht_trace_facts_free(struct ht_trace_facts *facts) {
    free(facts->samples);
    free(facts->residency);
    free(facts->steps);
    free(facts->threads);
    *facts = (struct ht_trace_facts){0};
}

double ht_trace_cpu_ns_at(const struct ht_trace_facts *facts, uint64_t time_ns) {
    size_t behind = HT_FIRST_ABOVE(facts->samples, facts->samples_count, time_ns, time_ns);
    const struct ht_sample none = {0}, *before = behind ? &facts->samples[behind - 1] : &none;
    const struct ht_sample *after = behind < facts->samples_count ? &facts->samples[behind] : before;
    if (after->cpu_ns <= before->cpu_ns) return (double)before->cpu_ns;
    double share = (double)(time_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
    return (double)before->cpu_ns + (double)(after->cpu_ns - before->cpu_ns) * share;
}

uint64_t ht_trace_busy_until(const struct ht_trace_facts *facts, uint64_t from_ns, uint64_t until_ns) {
    if (until_ns <= from_ns) return from_ns;
    if (!facts->samples_count) return until_ns;
    double busy_ns = ht_trace_cpu_ns_at(facts, until_ns) - ht_trace_cpu_ns_at(facts, from_ns);
    if (!(busy_ns > 0)) return from_ns;
    return busy_ns < (double)(until_ns - from_ns) ? from_ns + (uint64_t)busy_ns : until_ns;
}
