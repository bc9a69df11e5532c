// SPDX-License-Identifier: Apache-2.0
#include "shared_trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "event_bytes.h"
#include "event_copy.h"
#include "json_values.h"
#include "prelude.h"
#include "shared_texts.h"
#include "trace_json.h"

// Kernel numbers are replaced by those of the trace, from 1. Returns that of the initial thread, 0 where none is known.
static uint32_t renumber_threads(const struct ht_trace_facts *facts, const json_t *context) {
    json_int_t pid = json_integer_value(json_object_get(context, "pid"));
    uint32_t initial = 0;
    for (size_t i = 0; i < facts->threads_count; i++) {
        struct ht_thread *thread = &facts->threads[i];
        if (!initial && pid > 0 && thread->tid == pid) initial = (uint32_t)i + 1;
        thread->tid = (uint32_t)i + 1;
        memset(thread->name, 0, sizeof thread->name);
    }
    return initial;
}

// Of the events, and with them of the pages of the blocks that they made.
struct changing {
    const struct coarsening *coarsening;
    struct ht_trace_facts *facts;
    struct coarsened_rows rows;
};

static void change(void *context, struct ht_events *events) {
    struct changing *changing = context;
    events->site = NULL;
    for (uint32_t row = 0; row < events->rows; row++) {
        uint64_t bytes = ht_event_bytes(events, row);
        coarsen_event(changing->coarsening, events, row);
        coarsen_pages(changing->coarsening, &changing->rows, changing->facts, events->first_event + row,
                      bytes, ht_event_bytes(events, row));
    }
}

// The context with which the copy begins.
static json_t *context_of(struct shared_trace *shared, struct ht_trace_facts *facts, struct ht_error *error) {
    json_t *old = trace_json_read_context(shared->reader, error);
    if (!old) return NULL;
    uint32_t pid = renumber_threads(facts, old);
    json_t *context = shared_context(old, &shared->coarsening, pid);
    json_decref(old);
    return context;
}

// The totals with which it ends; of those of the other trace what is not in its events.
static json_t *totals_of(struct shared_trace *shared, const struct event_copy *copy, struct ht_error *error) {
    json_t *old = trace_json_read_totals(shared->reader, error);
    if (!old) return NULL;
    json_t *totals = shared_totals(old, &shared->coarsening);
    json_decref(old);
    event_copy_put_totals(copy, totals);
    shared->duration_ns = (uint64_t)json_integer_value(json_object_get(totals, "duration_ns"));
    return totals;
}

static int put_all(struct shared_trace *shared, struct ht_trace_writer *writer, struct ht_trace_facts *facts,
                   json_t **totals, struct ht_error *error) {
    json_int_t page_bytes = json_integer_value(json_object_get(shared->context, "page_bytes"));
    struct changing changing = {
        &shared->coarsening, facts, {.page_bytes = page_bytes > 0 ? (uint64_t)page_bytes : 4096}};
    struct event_copy copy = {.reader = shared->reader,
                              .writer = writer,
                              .facts = facts,
                              .change = change,
                              .context = &changing,
                              .quiet = shared->quiet};
    trace_json_put_context(writer, json_incref(shared->context));
    if (event_copy_run(&copy, error)) return -1;
    coarsen_pages(&shared->coarsening, &changing.rows, facts, UINT64_MAX, 0, 0);
    event_copy_put_facts(&copy);
    shared->totals = copy.totals;
    *totals = totals_of(shared, &copy, error);
    return *totals ? 0 : -1;
}

static int write_all(struct shared_trace *shared, struct ht_trace_writer *writer, struct ht_error *error);

// A copy of the prelude, within the copy.
static int put_prelude(struct shared_trace *shared, struct ht_trace_writer *writer, struct ht_error *error) {
    struct ht_prelude prelude;
    int fd = -1, status = ht_prelude_open(shared->reader, &prelude, error);
    if (status || !prelude.reader) return status;
    struct shared_trace copy = {.reader = prelude.reader, .coarsening = shared->coarsening, .quiet = true};
    uint64_t *number = calloc(prelude.threads + 1, sizeof *number);
    struct ht_trace_writer *inner = ht_prelude_create(ht_trace_time_unit_ns(prelude.reader), &fd, error);
    if (!number && inner) ht_trace_abandon(inner);
    if (!number) status = ht_error_memory(error, ht_trace_path(shared->reader), "cannot copy the prelude");
    else status = inner ? write_all(&copy, inner, error) : -1;
    for (size_t i = 0; number && i < prelude.threads; i++) number[i] = prelude.number[i];
    if (!status) status = ht_prelude_put(writer, fd, number, prelude.threads, error);
    json_decref(copy.context);
    free(number);
    if (fd >= 0 && inner) close(fd);
    ht_prelude_close(&prelude);
    return status;
}

// Into a writer that is finished or given up.
static int write_copy(struct shared_trace *shared, struct ht_trace_writer *writer,
                      struct ht_trace_facts *facts, struct ht_error *error) {
    json_t *totals = NULL;
    coarsen_facts(&shared->coarsening, facts);
    shared->samples = facts->samples_count;
    shared->large_blocks = facts->residency_count;
    shared->context = context_of(shared, facts, error);
    if (!shared->context || put_all(shared, writer, facts, &totals, error) ||
        put_prelude(shared, writer, error)) {
        json_decref(totals);
        ht_trace_abandon(writer);
        return -1;
    }
    return trace_json_finish(writer, facts->threads, facts->threads_count, totals, &shared->file_bytes,
                             error);
}

static int write_all(struct shared_trace *shared, struct ht_trace_writer *writer, struct ht_error *error) {
    struct ht_trace_facts facts;
    for (size_t i = 0; i < ht_trace_sections(shared->reader); i++) {
        uint32_t kind = ht_trace_section(shared->reader, i)->kind;
        shared->unknown_sections += kind < HT_SECTION_CONTEXT || kind > HT_SECTION_PRELUDE_THREADS;
    }
    if (ht_trace_facts(shared->reader, &facts, error)) {
        ht_trace_abandon(writer);
        return -1;
    }
    int status = write_copy(shared, writer, &facts, error);
    ht_trace_facts_free(&facts);
    return status;
}

int shared_trace_write(struct shared_trace *shared, const char *output, struct ht_error *error) {
    struct ht_trace_writer *writer = ht_trace_create(output, ht_trace_time_unit_ns(shared->reader), 3, error);
    return writer ? write_all(shared, writer, error) : -1;
}
