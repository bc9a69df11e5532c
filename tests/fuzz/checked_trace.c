// SPDX-License-Identifier: Apache-2.0
#include "checked_trace.h"

#include <stdlib.h>
#include <string.h>

#include "form_builder.h"
#include "fuzz_input.h"
#include "recorded_program.h"
#include "site_table.h"
#include "trace_json.h"

uint64_t checked_trace_add(uint64_t digest, uint8_t op, uint32_t thread, uint64_t time, uint32_t slot,
                           uint64_t size, uint64_t extra) {
    // A writer may move a query to its neighbour's time (trace-format.md).
    const uint64_t values[] = {op, thread, ht_op_shape(op).query ? 0 : time, slot, size, extra};
    for (unsigned i = 0; i < 6; i++)
        digest = (digest ^ values[i]) * UINT64_C(0x9e3779b97f4a7c15) + (digest >> 29);
    return digest;
}

static void check_event(const struct ht_events *events, uint32_t row) {
    const struct ht_op_shape shape = ht_op_shape(events->op[row]);
    FUZZ_EXPECT(shape.valid, "op %u", events->op[row]);
    FUZZ_EXPECT(shape.slot == (events->slot[row] != 0), "slot %u of op %u", events->slot[row],
                events->op[row]);
    FUZZ_EXPECT(shape.size || !events->size[row], "a size of op %u", events->op[row]);
    FUZZ_EXPECT(shape.extra || !events->extra[row], "an extra of op %u", events->op[row]);
    FUZZ_EXPECT(!row || events->time_ns[row] >= events->time_ns[row - 1], "time goes back");
}

// Threads are numbered by first event, and a new slot is one that the events account for.
static void check_numbers(const struct ht_events *events, uint32_t row, uint64_t *threads) {
    FUZZ_EXPECT(events->thread[row] <= *threads, "thread %u before its turn", events->thread[row]);
    *threads += events->thread[row] == *threads;
    FUZZ_EXPECT(ht_slot_is_due(events->slot[row], events->first_event + row), "slot %u is not due",
                events->slot[row]);
}

static void read_events(struct ht_trace_reader *reader, bool converted, struct checked_trace *trace) {
    struct ht_error error;
    uint32_t unit = ht_trace_time_unit_ns(reader);
    uint64_t threads = 0;
    trace->decoded = true;
    for (size_t i = 0; i < ht_trace_sections(reader); i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        if (ht_trace_events(reader, i, &events, &error)) {
            trace->decoded = false;
            continue;
        }
        FUZZ_EXPECT(!trace->decoded || events.first_event == trace->records, "events leave a gap");
        for (uint32_t row = 0; row < events.rows; row++) {
            check_event(&events, row);
            if (converted) check_numbers(&events, row, &threads);
            trace->digest = checked_trace_add(trace->digest, events.op[row], events.thread[row],
                                              events.time_ns[row] / unit, events.slot[row], events.size[row],
                                              events.extra[row]);
            trace->calls += ht_op_is_call(events.op[row]);
        }
        trace->records += events.rows;
    }
}

// The engine trusts the form: a stream must hold whole words of known slots and known marks.
static uint64_t check_segment(const struct ht_form *form, const struct ht_segment *segment) {
    const uint64_t *words = ht_segment_words(segment);
    uint64_t operations = 0;
    uint32_t at = 0;
    FUZZ_EXPECT((const char *)(words + segment->words + HT_WORDS_PADDING) <= (const char *)form + form->bytes,
                "a segment reaches beyond the replay form");
    while (at < segment->words) {
        uint64_t word = words[at];
        enum ht_word_op op = ht_word_op(word);
        if (op == HT_WORD_MARK) {
            uint32_t number = ht_word_arg(word);
            FUZZ_EXPECT((ht_word_slot(word) == HT_MARK_END) == (at + 1 == segment->words), "an END inside");
            FUZZ_EXPECT(ht_word_slot(word) != HT_MARK_TIMED || number < form->readings, "reading %u", number);
            FUZZ_EXPECT(ht_word_slot(word) != HT_MARK_SAMPLE || number < form->samples, "sample %u", number);
        } else {
            FUZZ_EXPECT(op == HT_WORD_TIME || ht_word_slot(word) < form->slots,
                        "slot %u of %u in the replay form", ht_word_slot(word), form->slots);
        }
        operations +=
            op <= HT_WORD_WIDE && !ht_word_touches(word) && !ht_word_steers(word) && !ht_word_advises(word);
        at += ht_word_length(word);
    }
    FUZZ_EXPECT(at == segment->words, "the replay form's words do not end with their segment");
    return operations;
}

static void check_stream(const struct ht_form *form, const struct ht_stream *stream) {
    uint64_t operations = 0;
    uint32_t unit = atomic_load(&stream->first_unit);
    while (unit != HT_SEGMENT_NONE) {
        FUZZ_EXPECT(unit && (uint64_t)unit * HT_SEGMENT_UNIT_BYTES < form->bytes, "segment %u", unit);
        const struct ht_segment *segment = ht_form_segment(form, unit);
        operations += check_segment(form, segment);
        unit = atomic_load(&segment->next_unit);
    }
    FUZZ_EXPECT(operations == stream->operations || stream == ht_form_streams(form) + form->streams,
                "operations of a stream");
}

static bool build_form(struct ht_trace_reader *reader, const char *path, bool one_thread) {
    struct ht_built_form built;
    struct ht_error error = {0};
    const struct ht_form_options options = {
        .one_thread = one_thread, .initial_tid = 1, .timed_one_in = 3, .seed = 1};
    if (ht_form_build(reader, path, &options, &built, &error)) {
        FUZZ_EXPECT(error.status && *error.message, "a form that fails without an error");
        return false;
    }
    const struct ht_form *form = built.form;
    for (uint32_t i = 0; i <= form->streams; i++) check_stream(form, &ht_form_streams(form)[i]);
    ht_form_free(&built);
    return true;
}

static void read_texts(struct ht_trace_reader *reader, bool *decoded) {
    struct ht_error error = {0};
    struct ht_recorded_program program;
    json_t *info = trace_json_info(reader, &error);
    FUZZ_EXPECT(info || (error.status && *error.message), "info that fails without an error");
    *decoded &= info != NULL;
    json_decref(info);
    if (ht_recorded_program_read(reader, &program, &error)) {
        *decoded = false;
        return;
    }
    FUZZ_EXPECT(strlen(program.command) < sizeof program.command, "a command without an end");
    ht_recorded_program_free(&program);
}

// Every frame of every call site.
static void read_sites(struct ht_trace_reader *reader) {
    struct ht_site_table table;
    struct ht_error error = {0};
    struct ht_frame frame;
    if (ht_trace_site_table(reader, &table, &error)) {
        FUZZ_EXPECT(error.status, "no error reported");
        return;
    }
    for (uint32_t site = 1; site <= table.sites_count && site <= 64; site++)
        for (struct ht_frames at = ht_site_frames(&table, site); ht_next_frame(&at, &frame);)
            FUZZ_EXPECT(frame.location && strlen(frame.function) <= table.strings_bytes,
                        "a frame of no table");
    ht_site_table_free(&table);
}

struct checked_trace checked_trace(const char *path, bool converted) {
    struct checked_trace trace = {0};
    struct ht_error error = {0};
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    if (!reader) {
        FUZZ_EXPECT(error.status && *error.message, "a trace that does not open without an error");
        return trace;
    }
    trace.whole = !ht_trace_truncated(reader);
    read_events(reader, converted, &trace);
    bool texts = true;
    read_texts(reader, &texts);
    read_sites(reader);
    struct ht_trace_facts facts;
    if (ht_trace_facts(reader, &facts, &error)) {
        trace.decoded = false;
    } else {
        trace.threads = facts.threads_count;
        ht_trace_facts_free(&facts);
    }
    trace.decoded &= texts;
    trace.replayable = build_form(reader, path, false);
    FUZZ_EXPECT(build_form(reader, path, true) == trace.replayable, "one thread replays, several do not");
    ht_trace_close(reader);
    return trace;
}
