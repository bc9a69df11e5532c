// SPDX-License-Identifier: Apache-2.0
#include "shared_trace.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator.h"
#include "event_copy.h"
#include "import_formats.h"
#include "json_values.h"
#include "prelude.h"
#include "trace_facts.h"
#include "trace_json.h"

// ---- the JSON texts: of those of the trace the facts that name nothing and nobody; what is not known here is left out ----

enum { VERSION_BYTES = 32 };

static bool is_one_of(const char *text, const char *const *words) {
    for (; text && *words; words++)
        if (!strcmp(text, *words)) return true;
    return false;
}

// A text that is one of those which heaptape itself writes.
static void copy_word(json_t *to, const json_t *from, const char *key, const char *const *words) {
    const char *text = json_string_value(json_object_get(from, key));
    if (is_one_of(text, words)) json_object_set_new(to, key, json_string(text));
}

// The digits and dots that a version begins with.
static void copy_version(json_t *to, const json_t *from, const char *key) {
    const char *text = json_string_value(json_object_get(from, key));
    size_t length = text ? strspn(text, "0123456789.") : 0;
    if (length && length < VERSION_BYTES) json_object_set_new(to, key, json_stringn(text, length));
}

static void copy_count(json_t *to, const json_t *from, const char *key) {
    json_t *value = json_object_get(from, key);
    if (json_is_integer(value) || json_is_null(value)) json_object_set(to, key, value);
}

static void copy_memory(json_t *to, const json_t *from, const char *key,
                        const struct coarsening *coarsening) {
    if (coarsening->size_bits) json_object_set_new(to, key, json_null());
    else copy_count(to, from, key);
}

static void copy_time(json_t *to, const json_t *from, const char *key, const struct coarsening *coarsening) {
    copy_count(to, from, key);
    json_int_t ns = json_integer_value(json_object_get(to, key));
    if (ns > 0) json_set_number(to, key, coarse_time(coarsening, (uint64_t)ns));
}

static void copy_allocator(json_t *to, const json_t *from) {
    const char *name = json_string_value(json_object_get(from, "allocator_name"));
    const struct ht_allocator *kind = name ? ht_allocator_named(name) : NULL;
    // A build of a known kind may have any name.
    if (!kind || strcmp(kind->name, name) != 0) return;
    json_object_set_new(to, "allocator_name", json_string(name));
    copy_version(to, from, "allocator_version");
}

// That the recording ended before the program: the reason may have words of the system.
static void copy_stop(json_t *to, const json_t *from) {
    static const char *const known[] = {"no space", "size limit", "ended by heaptape ctl"};
    const char *text = json_string_value(json_object_get(from, "stopped")), *reason = "reason left out";
    if (!text) return;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strncmp(text, known[i], strlen(known[i]))) reason = known[i];
    json_object_set_new(to, "stopped", json_string(reason));
}

// Where a recording was cut or repeated: numbers, and whether threads were left out, by which readers go.
static json_t *cut_of(const json_t *cut, const struct coarsening *coarsening) {
    static const char *const facts[] = {"from_event",   "to_event", "end_event",
                                        "of_extension", "given",    "grows"};
    static const char *const times[] = {"from_ns", "to_ns", "until_ns"};
    json_t *kept = json_object();
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        json_t *value = json_object_get(cut, facts[i]);
        if (json_is_integer(value) || json_is_boolean(value)) json_object_set(kept, facts[i], value);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) copy_time(kept, cut, times[i], coarsening);
    const char *threads = json_string_value(json_object_get(cut, "threads"));
    if (threads && !threads[strspn(threads, "0123456789-,")])
        json_object_set_new(kept, "threads", json_string(threads));
    return kept;
}

// A slice of a slice names what that was cut from.
static json_t *slices_of(const json_t *cut, const struct coarsening *coarsening) {
    json_t *kept = cut_of(cut, coarsening), *before = json_object_get(cut, "sliced_from");
    if (json_is_object(before)) json_object_set_new(kept, "sliced_from", slices_of(before, coarsening));
    return kept;
}

static void copy_check(json_t *to, const json_t *from, const struct coarsening *coarsening) {
    const json_t *check = json_object_get(from, "check");
    if (!json_is_object(check)) return;
    json_t *kept = json_object();
    copy_memory(kept, check, "recorded_rss_peak_bytes", coarsening);
    copy_memory(kept, check, "alone_rss_peak_bytes", coarsening);
    copy_time(kept, check, "recorded_cpu_ns", coarsening);
    copy_time(kept, check, "alone_cpu_ns", coarsening);
    json_object_set_new(to, "check", kept);
}

// pid: the initial thread's new number; 0: unknown. context may be NULL.
static json_t *shared_context(const json_t *context, const struct coarsening *coarsening, uint32_t pid) {
    static const char *const huge_pages[] = {"[always] madvise never", "always [madvise] never",
                                             "always madvise [never]", NULL};
    static const char *const times[] = {"recorded", "ticks", "nominal", NULL};
    static const char *const frees[] = {"assumed", NULL}, *const preludes[] = {"whole", "part", "none", NULL};
    json_t *kept = json_object(), *part;
    copy_allocator(kept, context);
    copy_version(kept, context, "shim_version");
    copy_word(kept, context, "thp", huge_pages);
    copy_stop(kept, context);
    const char *format = json_string_value(json_object_get(context, "source_format"));
    if (format && import_format_named(format))
        json_object_set_new(kept, "source_format", json_string(format));
    copy_word(kept, context, "time", times);
    copy_word(kept, context, "prelude", preludes);
    copy_word(kept, context, "frees", frees);
    copy_count(kept, context, "page_bytes");
    copy_check(kept, context, coarsening);
    if (json_is_object(part = json_object_get(context, "sliced_from")))
        json_object_set_new(kept, "sliced_from", slices_of(part, coarsening));
    if (json_is_object(part = json_object_get(context, "extended")))
        json_object_set_new(kept, "extended", cut_of(part, coarsening));
    if (pid) json_set_number(kept, "pid", pid);
    json_object_set_new(kept, "shared", shared_json(coarsening));
    return kept;
}

// Without its place, which is a text.
static void copy_damage(json_t *to, const json_t *from) {
    const json_t *damage = json_object_get(from, "damage");
    if (!json_is_object(damage)) return;
    json_t *kept = json_object();
    copy_count(kept, damage, "places");
    copy_count(kept, damage, "lost_calls");
    json_object_set_new(kept, "at_least", json_boolean(json_is_true(json_object_get(damage, "at_least"))));
    json_object_set_new(to, "damage", kept);
}

static json_t *shared_totals(const json_t *totals, const struct coarsening *coarsening) {
    static const char *const counts[] = {"repairs",    "anomalies", "foreign_queries", "unfinished",
                                         "lost_calls", "skipped",   "freed_looked_at", "freed_warm"};
    static const char *const memory[] = {"recorded_rss_peak_bytes",      "recorded_own_peak_bytes",
                                         "recorded_heap_rss_peak_bytes", "recorded_heap_rss_low_bytes",
                                         "recorded_heap_rss_high_bytes", "recorded_explained_bytes"};
    static const char *const times[] = {"duration_ns", "recorded_cpu_ns"};
    json_t *kept = json_object();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) copy_count(kept, totals, counts[i]);
    copy_damage(kept, totals);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        copy_memory(kept, totals, memory[i], coarsening);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) copy_time(kept, totals, times[i], coarsening);
    return kept;
}

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

// Events change, and with them the pages of the blocks that they made.
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
