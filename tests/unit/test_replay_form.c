// SPDX-License-Identifier: Apache-2.0
// The replay form: what each event becomes, in which thread's stream, and who waits for whom.
#include "unit_support.h"

#include <math.h>
#include <string.h>

#include "form_builder.h"
#include "trace_writer.h"

struct event {
    uint8_t op;
    uint32_t thread;
    uint64_t time_ns;
    uint32_t slot;
    uint64_t size, extra;
};

#define OP(function, variant) ((uint8_t)(HT_##function | HT_##variant << 5))

static void write_trace(const char *path, const struct event *events, size_t count, uint32_t threads,
                        const struct ht_residency *residency) {
    struct ht_error error = {0};
    struct ht_trace_writer *writer = ht_trace_create(path, 1, 1, &error);
    assert_non_null(writer);
    assert_int_equal(ht_trace_put_context(writer, "{}"), 0);
    for (size_t i = 0; i < count; i++) {
        const struct event *e = &events[i];
        ht_trace_put_event(writer, e->op, e->thread, e->time_ns, e->slot, false, e->size, e->extra);
    }
    if (residency) ht_trace_put_residency(writer, residency);
    struct ht_thread rows[16] = {0};
    for (uint32_t i = 0; i < threads; i++) {
        rows[i].tid = 500 + i;
        rows[i].ended = i == 2;
        rows[i].end_ns = 900000000;
    }
    assert_int_equal(ht_trace_finish(writer, rows, threads, "{}", NULL, &error), 0);
}

static int try_build(const struct event *events, size_t count, uint32_t threads,
                     const struct ht_residency *residency, struct ht_form_options options,
                     struct ht_built_form *built, struct ht_error *error) {
    char path[256];
    write_trace(unit_path(path, "form.bin"), events, count, threads, residency);
    struct ht_trace_reader *reader = ht_trace_open(path, error);
    assert_non_null(reader);
    int failed = ht_form_build(reader, path, &options, built, error);
    ht_trace_close(reader);
    unlink(path);
    return failed;
}

static void build(const struct event *events, size_t count, uint32_t threads,
                  const struct ht_residency *residency, struct ht_form_options options,
                  struct ht_built_form *built) {
    struct ht_error error = {0};
    if (try_build(events, count, threads, residency, options, built, &error)) fail_msg("%s", error.message);
}

// A stream's words without the segments' ends and, unless they are wanted, without marks.
struct stream_words {
    size_t count;
    uint64_t words[200000];
};

static const struct stream_words *gather(const struct ht_built_form *built, uint32_t i, bool marks) {
    static struct stream_words gathered[8];
    struct stream_words *stream = &gathered[i];
    stream->count = 0;
    uint32_t unit = ht_form_streams(built->form)[i].first_unit;
    while (unit != HT_SEGMENT_NONE) {
        const struct ht_segment *segment = ht_form_segment(built->form, unit);
        const uint64_t *words = ht_segment_words(segment);
        assert_int_equal(words[segment->words - 1], ht_word_mark(HT_MARK_END, 0));
        for (uint32_t at = 0; at + 1 < segment->words;) {
            unsigned length = ht_word_length(words[at]);
            for (unsigned k = 0; k < length && (marks || ht_word_op(words[at]) != HT_WORD_MARK); k++) {
                stream->words[stream->count++] = words[at + k];
            }
            at += length;
        }
        unit = segment->next_unit;
    }
    return stream;
}

static const struct ht_stream *stream_of(const struct ht_built_form *built, uint32_t i) {
    return ht_form_streams(built->form) + i;
}
static const uint64_t *words_of(const struct ht_built_form *built, uint32_t i) {
    return gather(built, i, false)->words;
}
static size_t words_count(const struct ht_built_form *built, uint32_t i) {
    return gather(built, i, false)->count;
}
static size_t marks_count(const struct ht_built_form *built, uint32_t i, enum ht_mark mark) {
    const struct stream_words *stream = gather(built, i, true);
    size_t count = 0;
    for (size_t at = 0; at < stream->count; at += ht_word_length(stream->words[at])) {
        count += ht_word_op(stream->words[at]) == HT_WORD_MARK && ht_word_slot(stream->words[at]) == mark;
    }
    return count;
}

#define BUILD(events, threads, residency, options, built)                                                    \
    build(events, sizeof(events) / sizeof *(events), threads, residency, options, built)

static void each_call_becomes_its_words(void **state) {
    (void)state;
    const struct event events[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 100, 0},
        {OP(CALLOC, PLAIN), 0, 10, 2, 24, 3},
        {OP(REALLOC, PLAIN), 0, 20, 1, 200, 0},
        {OP(FREE, NULL), 0, 30, 0, 0, 0},
        {OP(REALLOC, NULL), 0, 40, 3, 50, 0},
        {OP(MEMALIGN, PLAIN), 0, 50, 4, 64, 3},
        {OP(REALLOC, RELEASED), 0, 60, 3, 0, 0},
        {OP(MALLOC, PLAIN), 0, 70, 3, 5ull << 32, 0},
        {OP(MALLOC, FAILED), 0, 80, 0, 1ull << 50, 0},
        {OP(FREE, FOREIGN), 0, 90, 0, 0, 0},
        {OP(NEW, PLAIN), 0, 100, 5, 8, 0},
        {OP(DELETE, PLAIN), 0, 110, 5, 0, 0},
    };
    const uint64_t expected[] = {
        ht_word_time(0),
        ht_word(HT_WORD_MALLOC, 1, 100),
        ht_word(HT_WORD_CALLOC, 2, 24),
        3,
        ht_word(HT_WORD_REALLOC, 1, 200),
        100,
        ht_word(HT_WORD_FREE, 0, 0),
        ht_word(HT_WORD_WIDE, 3, HT_WIDE_REALLOC_NULL),
        50,
        0,
        HT_PAGES_BY_RULE,
        ht_word(HT_WORD_WIDE, 4, HT_WIDE_ALIGNED),
        64,
        8,
        HT_PAGES_BY_RULE,
        ht_word(HT_WORD_FREE, 3, 50),
        ht_word(HT_WORD_WIDE, 3, HT_WIDE_MALLOC),
        5ull << 32,
        0,
        HT_PAGES_BY_RULE,
        ht_word(HT_WORD_MALLOC, 5, ht_arg(HT_BY_NEW, 8)),
        ht_word(HT_WORD_FREE, 5, ht_arg(HT_BY_DELETE, 8)),
    };
    struct ht_built_form built;
    BUILD(events, 1, NULL, (struct ht_form_options){0}, &built);
    assert_int_equal(built.form->streams, 1);
    assert_int_equal(built.form->initial_stream, 0);
    assert_int_equal(words_count(&built, 0), sizeof expected / sizeof *expected);
    assert_memory_equal(words_of(&built, 0), expected, sizeof expected);
    assert_int_equal(built.calls_total, 10);
    assert_int_equal(built.calls[HT_REALLOC], 3);
    assert_int_equal(built.calls[HT_NEW], 1);
    assert_int_equal(built.failed_skipped, 1);
    assert_int_equal(built.foreign_skipped, 1);
    assert_int_equal(built.form->slots, 6);
    assert_int_equal(built.live_peak_bytes, 200 + 72 + 64 + (5ull << 32) + 8);
    ht_form_free(&built);
}

// Operators take one word where their size fits into it. timed_one_in 1: each call goes the long way.
static void operators_keep_their_names(void **state) {
    (void)state;
    const uint64_t large = HT_ARG_BYTES_MAX;
    const struct event events[] = {
        {OP(NEW, PLAIN), 0, 0, 1, 40, 0},           {OP(DELETE_SIZED, PLAIN), 0, 0, 1, 40, 0},
        {OP(NEW_ARRAY, PLAIN), 0, 0, 1, 40, 0},     {OP(DELETE_SIZED, PLAIN), 0, 0, 1, 39, 0},
        {OP(NEW, PLAIN), 0, 0, 1, large, 0},        {OP(DELETE_ARRAY, PLAIN), 0, 0, 1, 0, 0},
        {OP(NEW, PLAIN), 0, 0, 1, large + 1, 0},    {OP(DELETE_SIZED, PLAIN), 0, 0, 1, large + 1, 0},
        {OP(NEW_ARRAY, PLAIN), 0, 0, 1, 40, 0},     {OP(DELETE_ARRAY_SIZED, PLAIN), 0, 0, 1, 40, 0},
        {OP(MALLOC, PLAIN), 0, 0, 1, large + 1, 0}, {OP(FREE, PLAIN), 0, 0, 1, 0, 0},
    };
    const struct ht_word_call expected[] = {
        {HT_WIDE_MALLOC, false, 1, 40, HT_BY_NEW, HT_PAGES_BY_RULE},
        {HT_WIDE_FREE, true, 1, 40, HT_BY_DELETE_SIZED, HT_PAGES_BY_RULE},
        {HT_WIDE_MALLOC, false, 1, 40, HT_BY_NEW_ARRAY, HT_PAGES_BY_RULE},
        {HT_WIDE_FREE, true, 1, 40, HT_BY_DELETE, HT_PAGES_BY_RULE},
        {HT_WIDE_MALLOC, false, 1, large, HT_BY_NEW, HT_PAGES_BY_RULE},
        {HT_WIDE_FREE, true, 1, large, HT_BY_DELETE_ARRAY, HT_PAGES_BY_RULE},
        {HT_WIDE_MALLOC, false, 1, large + 1, HT_BY_NEW, HT_PAGES_BY_RULE},
        {HT_WIDE_FREE, true, 1, large + 1, HT_BY_DELETE_SIZED, large + 1},
        {HT_WIDE_MALLOC, false, 1, 40, HT_BY_NEW_ARRAY, HT_PAGES_BY_RULE},
        {HT_WIDE_FREE, true, 1, 40, HT_BY_DELETE_ARRAY_SIZED, 40},
        {HT_WIDE_MALLOC, false, 1, large + 1, HT_BY_MALLOC, HT_PAGES_BY_RULE},
        {HT_WIDE_FREE, true, 1, 0, HT_BY_FREE, large + 1},
    };
    for (uint32_t timed_one_in = 0; timed_one_in < 2; timed_one_in++) {
        struct ht_built_form built;
        BUILD(events, 1, NULL, (struct ht_form_options){.timed_one_in = timed_one_in}, &built);
        const uint64_t *word = words_of(&built, 0);
        for (unsigned i = 0; i < sizeof expected / sizeof *expected; word += ht_word_length(*word)) {
            if (ht_word_op(*word) == HT_WORD_TIME || ht_word_op(*word) == HT_WORD_MARK) continue;
            struct ht_word_call call = ht_word_call(word);
            assert_true(call.call == expected[i].call && call.frees == expected[i].frees &&
                        call.slot == expected[i].slot && call.size == expected[i].size &&
                        call.extra == expected[i].extra && call.pages == expected[i].pages);
            assert_int_equal(ht_word_op(*word) == HT_WORD_WIDE, i >= 6 && i != 8);
            i++;
        }
        assert_int_equal(built.calls_total, 12);
        ht_form_free(&built);
    }
}

static void known_resident_pages_make_a_call_wide(void **state) {
    (void)state;
    const struct event events[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 100, 0},
        {OP(MALLOC, PLAIN), 0, 10, 2, 1 << 20, 0},
    };
    const struct ht_residency row = {.event = 1, .pages_before = 1, .pages_after = 17};
    struct ht_built_form built;
    BUILD(events, 1, &row, (struct ht_form_options){0}, &built);
    const uint64_t *words = words_of(&built, 0);
    assert_int_equal(words[1], ht_word(HT_WORD_MALLOC, 1, 100));
    assert_int_equal(words[2], ht_word(HT_WORD_WIDE, 2, HT_WIDE_MALLOC));
    assert_int_equal(words[5], 17);
    ht_form_free(&built);
}

static void only_slots_that_change_thread_are_handed_over(void **state) {
    (void)state;
    const struct event events[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 100, 0},   // thread 1 frees it: handed over
        {OP(MALLOC, PLAIN), 0, 10, 2, 100, 0},  // stays with thread 0
        {OP(FREE, PLAIN), 1, 20, 1, 0, 0},     {OP(MALLOC, PLAIN), 1, 30, 1, 10, 0},  // thread 2 frees it
        {OP(FREE, PLAIN), 0, 40, 2, 0, 0},     {OP(FREE, PLAIN), 2, 50, 1, 0, 0},
    };
    const uint64_t first[] = {ht_word_time(0), ht_word(HT_WORD_MALLOC, 1, 100), ht_word_order(1, 1, 1),
                              ht_word(HT_WORD_MALLOC, 2, 100), ht_word(HT_WORD_FREE, 2, 100)};
    const uint64_t second[] = {ht_word_time(20), ht_word_order(1, 1, 0), ht_word(HT_WORD_FREE, 1, 100),
                               ht_word(HT_WORD_MALLOC, 1, 10), ht_word_order(1, 2, 1)};
    const uint64_t third[] = {ht_word_time(50), ht_word_order(1, 2, 0), ht_word(HT_WORD_FREE, 1, 10),
                              ht_word_time(900000000)};  // it ended there
    struct ht_built_form built;
    BUILD(events, 3, NULL, ((struct ht_form_options){.initial_tid = 501}), &built);
    assert_int_equal(built.form->streams, 3);
    assert_int_equal(built.form->initial_stream, 1);
    assert_memory_equal(words_of(&built, 0), first, sizeof first);
    assert_memory_equal(words_of(&built, 1), second, sizeof second);
    assert_memory_equal(words_of(&built, 2), third, sizeof third);
    assert_int_equal(words_count(&built, 2), 4);
    assert_int_equal(stream_of(&built, 0)->stays, 1);
    assert_int_equal(stream_of(&built, 2)->stays, 0);
    ht_form_free(&built);
    BUILD(events, 3, NULL, ((struct ht_form_options){.one_thread = true}), &built);
    assert_int_equal(built.form->streams, 1);
    assert_int_equal(words_count(&built, 0), 7);  // a time and six calls, nobody to wait for
    ht_form_free(&built);
}

static void time_passes_in_steps(void **state) {
    (void)state;
    const struct event events[] = {
        {OP(FREE, NULL), 0, 5, 0, 0, 0},
        {OP(FREE, NULL), 0, 5 + HT_TIME_STEP_NS - 1, 0, 0, 0},
        {OP(FREE, NULL), 0, 5 + HT_TIME_STEP_NS, 0, 0, 0},
    };
    const uint64_t expected[] = {ht_word_time(5), ht_word(HT_WORD_FREE, 0, 0), ht_word(HT_WORD_FREE, 0, 0),
                                 ht_word_time(5 + HT_TIME_STEP_NS), ht_word(HT_WORD_FREE, 0, 0)};
    struct ht_built_form built;
    BUILD(events, 1, NULL, (struct ht_form_options){0}, &built);
    assert_memory_equal(words_of(&built, 0), expected, sizeof expected);
    assert_int_equal(ht_word_time_ns(ht_word_time(HT_TIME_LIMIT_NS - 1)), HT_TIME_LIMIT_NS - 1);
    ht_form_free(&built);
}

static void rss_is_read_in_pauses_and_after_the_last_call(void **state) {
    (void)state;
    const uint64_t ms = 1000000;
    const struct event events[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 100, 0},
        {OP(FREE, PLAIN), 0, 35 * ms, 1, 0, 0},
    };
    // Two calls, each with a sample of its own behind it, and what is read in between and then.
    const uint64_t expected_ms[] = {0, 10, 20, 30, 35, 45, 55};
    enum { POINTS = sizeof expected_ms / sizeof *expected_ms };
    struct ht_built_form built;
    BUILD(events, 1, NULL, (struct ht_form_options){.end_ns = 60 * ms}, &built);
    assert_int_equal(built.form->samples, POINTS);
    assert_int_equal(marks_count(&built, 0, HT_MARK_SAMPLE), POINTS);
    for (int i = 0; i < POINTS; i++) assert_int_equal(built.points[i].time_ns, expected_ms[i] * ms);
    const uint64_t *words = gather(&built, 0, true)->words;
    assert_int_equal(words[3], ht_word_time(10 * ms));  // after a time, an op and its sample
    assert_int_equal(words[4], ht_word_mark(HT_MARK_SAMPLE, 1));
    ht_form_free(&built);
    BUILD(events, 1, NULL, (struct ht_form_options){.end_ns = 0}, &built);
    assert_int_equal(built.form->samples, 2);  // not without knowing how long the trace is
    ht_form_free(&built);
}

// Also where the last event is none that is replayed: of the same thread, and of another that has nothing else to do.
static void rss_is_read_at_the_end_behind_skipped_events(void **state) {
    (void)state;
    const uint64_t ms = 1000000;
    const uint64_t at_event_ms[] = {0, 10, 20, 30, 35, 45, 55}, at_call_ms[] = {0, 10, 20, 30, 40, 50};
    const uint8_t skipped[] = {OP(FREE, FOREIGN), OP(MALLOC, FAILED)};
    for (uint32_t k = 0; k < 8; k++) {
        uint32_t thread = k & 1;
        bool one_thread = k >> 1 & 1;
        const struct event events[] = {{OP(MALLOC, PLAIN), 0, 0, 1, 100, 0},
                                       {skipped[k >> 2], thread, 35 * ms, 0, 0, 0}};
        // A single stream comes to that event's time; of several the one with the last call goes on from there.
        const uint64_t *expected_ms = one_thread ? at_event_ms : at_call_ms;
        const size_t points =
            one_thread ? sizeof at_event_ms / sizeof *at_event_ms : sizeof at_call_ms / sizeof *at_call_ms;
        struct ht_built_form built;
        BUILD(events, 2, NULL, ((struct ht_form_options){.one_thread = one_thread, .end_ns = 60 * ms}),
              &built);
        assert_int_equal(built.form->samples, points);
        assert_int_equal(marks_count(&built, 0, HT_MARK_SAMPLE), points);
        for (size_t i = 0; i < points; i++) assert_int_equal(built.points[i].time_ns, expected_ms[i] * ms);
        ht_form_free(&built);
    }
}

static void traces_that_contradict_themselves_are_refused(void **state) {
    (void)state;
    const struct event twice[] = {{OP(MALLOC, PLAIN), 0, 0, 1, 8, 0}, {OP(MALLOC, PLAIN), 0, 1, 1, 8, 0}};
    const struct event unborn[] = {{OP(FREE, PLAIN), 0, 0, 1, 0, 0}};
    const struct event late[] = {{OP(FREE, NULL), 0, 0, 0, 0, 0}, {OP(INHERIT, PLAIN), 0, 0, 1, 8, 0}};
    const struct event calls_nothing[] = {{OP(INHERIT, PLAIN), 0, 0, 1, 8, 0}};
    const struct event wide_slot[] = {{OP(MALLOC, PLAIN), 0, 0, HT_SLOTS_LIMIT, 8, 0}};
    struct ht_error error = {0};
    struct ht_built_form built;
    assert_int_equal(try_build(twice, 2, 1, NULL, (struct ht_form_options){0}, &built, &error), -1);
    assert_int_equal(error.status, HT_EXIT_INPUT);
    assert_non_null(strstr(error.message, "event 1: expected an allocation into a free slot"));
    assert_int_equal(try_build(unborn, 1, 1, NULL, (struct ht_form_options){0}, &built, &error), -1);
    assert_non_null(strstr(error.message, "event 0: expected a slot with a live object"));
    assert_int_equal(try_build(wide_slot, 1, 1, NULL, (struct ht_form_options){0}, &built, &error), -1);
    assert_non_null(strstr(error.message, "(replay's limit)"));
    assert_int_equal(try_build(late, 2, 1, NULL, (struct ht_form_options){0}, &built, &error), -1);
    assert_non_null(strstr(error.message, "event 1: expected inherited blocks before the first call"));
    assert_int_equal(try_build(calls_nothing, 1, 1, NULL, (struct ht_form_options){0}, &built, &error), -1);
    assert_non_null(strstr(error.message, "expected at least one call that can be replayed"));
}

static void inherited_blocks_come_before_every_stream(void **state) {
    (void)state;
    const struct event events[] = {
        {OP(INHERIT, PLAIN), 0, 0, 1, 100, 0},     {OP(INHERIT, PLAIN), 0, 0, 2, 1 << 20, 0},
        {OP(INHERIT, PLAIN), 0, 0, 3, 1 << 20, 0}, {OP(FREE, PLAIN), 1, 5, 1, 0, 0},
        {OP(REALLOC, PLAIN), 0, 9, 3, 2 << 20, 0},
    };
    const struct ht_residency row = {.event = 1, .pages_before = 0, .pages_after = 17};
    const uint64_t inherited[] = {
        ht_word(HT_WORD_MALLOC, 1, 100),    ht_word(HT_WORD_WIDE, 2, HT_WIDE_MALLOC), 1 << 20, 0, 17,
        ht_word(HT_WORD_MALLOC, 3, 1 << 20)};
    const uint64_t first[] = {ht_word_time(9), ht_word(HT_WORD_REALLOC, 3, 2 << 20), 1 << 20};
    const uint64_t second[] = {ht_word_time(5), ht_word(HT_WORD_FREE, 1, 100)};  // waits for nobody
    struct ht_built_form built;
    for (int one_thread = 0; one_thread < 2; one_thread++) {
        BUILD(events, 2, &row, ((struct ht_form_options){.one_thread = one_thread, .timed_one_in = 1}),
              &built);
        uint32_t before = built.form->streams;  // the stream behind the threads' own
        assert_int_equal(words_count(&built, before), 6);
        assert_memory_equal(words_of(&built, before), inherited, sizeof inherited);
        assert_int_equal(marks_count(&built, before, HT_MARK_SAMPLE), 1);
        assert_int_equal(built.inherited_objects, 3);
        assert_int_equal(built.calls_total, 2);
        assert_int_equal(built.form->operations, 2);
        assert_int_equal(built.live_peak_bytes, 3 << 20);
        assert_int_equal(built.points[0].event, 2);
        assert_int_equal(built.points[0].live_bytes, (2 << 20) + 100);
        assert_int_equal(built.form->streams, one_thread ? 1 : 2);
        if (!one_thread) {
            assert_int_equal(words_count(&built, 0), 3);
            assert_memory_equal(words_of(&built, 0), first, sizeof first);
            assert_int_equal(words_count(&built, 1), 2);
            assert_memory_equal(words_of(&built, 1), second, sizeof second);
        }
        ht_form_free(&built);
    }
}

enum { THREADS = 5, EVENTS = 20000, SLOTS = 60 };

static size_t random_events(struct event *events, uint64_t seed) {
    bool live[SLOTS + 1] = {false};
    for (size_t i = 0; i < EVENTS; i++) {
        uint32_t slot = 1 + (uint32_t)(unit_random(&seed) % SLOTS);
        uint8_t op =
            live[slot] ? unit_random(&seed) % 4 ? OP(FREE, PLAIN) : OP(REALLOC, PLAIN) : OP(MALLOC, PLAIN);
        if (op != OP(REALLOC, PLAIN)) live[slot] = !live[slot];
        // The size of an allocation is its event, so that the words tell which event they came from.
        events[i] = (struct event){op, (uint32_t)(unit_random(&seed) % THREADS), i * 1000, slot, i, 0};
    }
    return EVENTS;
}

// Lets random threads go on where they need not wait, as the scheduler might, and checks that the ops on
// every slot come in the trace's order all the same, and that somebody can always go on.
static void any_schedule_keeps_each_slots_order(void **state) {
    (void)state;
    static struct event events[EVENTS];
    struct ht_built_form built;
    uint64_t seed = 7;
    build(events, random_events(events, 3), THREADS, NULL, (struct ht_form_options){0}, &built);
    size_t at[THREADS] = {0}, order_at[SLOTS + 1] = {0};
    static size_t order[SLOTS + 1][EVENTS];
    size_t counts[SLOTS + 1] = {0};
    uint32_t handed[SLOTS + 1] = {0};
    for (size_t i = 0; i < EVENTS; i++) order[events[i].slot][counts[events[i].slot]++] = i;
    size_t executed = 0, idle = 0;
    const struct stream_words *streams[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) streams[i] = gather(&built, i, false);
    while (executed < EVENTS) {
        uint32_t thread = (uint32_t)(unit_random(&seed) % THREADS);
        if (at[thread] >= streams[thread]->count) continue;
        uint64_t word = streams[thread]->words[at[thread]];
        uint32_t slot = ht_word_slot(word);
        assert_true(idle++ < 100000);
        bool orders = ht_word_op(word) == HT_WORD_ORDER, publishes = orders && (ht_word_arg(word) & 1);
        if (orders && !publishes && handed[slot] != ht_word_arg(word) >> 1) continue;
        at[thread] += ht_word_length(word);
        idle = 0;
        if (publishes) assert_int_equal(++handed[slot], ht_word_arg(word) >> 1);
        if (ht_word_op(word) >= HT_WORD_WIDE) continue;
        const struct event *expected = &events[order[slot][order_at[slot]++]];
        assert_int_equal(expected->thread, thread);
        if (ht_word_op(word) == HT_WORD_FREE) assert_int_equal(expected->op, OP(FREE, PLAIN));
        else assert_int_equal(expected->size, ht_word_arg(word));
        executed++;
    }
    ht_form_free(&built);
}

static void samples_follow_new_maxima(void **state) {
    (void)state;
    static struct event events[EVENTS];
    struct ht_built_form built;
    for (uint32_t i = 0; i < EVENTS; i++) {
        bool up = i < EVENTS / 2;
        events[i] = (struct event){up ? OP(MALLOC, PLAIN) : OP(FREE, PLAIN),
                                   0,
                                   i * 1000ull,
                                   up ? i + 1 : EVENTS - i,
                                   up ? 1000 : 0,
                                   0};
    }
    build(events, EVENTS, 1, NULL, (struct ht_form_options){.timed_one_in = 50, .seed = 1}, &built);
    assert_int_equal(built.live_peak_bytes, EVENTS / 2 * 1000);
    uint64_t highest = 0;
    for (uint32_t i = 0; i < built.form->samples; i++) {
        if (built.points[i].live_bytes > highest) highest = built.points[i].live_bytes;
        if (i > 0) assert_true(built.points[i].event > built.points[i - 1].event);
        if (i > 0) assert_true(built.points[i].event - built.points[i - 1].event <= EVENTS / 10000 + 1);
    }
    assert_true((double)highest > 0.998 * (double)built.live_peak_bytes);
    assert_int_equal(marks_count(&built, 0, HT_MARK_SAMPLE), built.form->samples);
    assert_true(fabs((double)marks_count(&built, 0, HT_MARK_TIMED) / (EVENTS / 50.0) - 1) < 0.2);
    ht_form_free(&built);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_becomes_its_words),
        cmocka_unit_test(operators_keep_their_names),
        cmocka_unit_test(known_resident_pages_make_a_call_wide),
        cmocka_unit_test(only_slots_that_change_thread_are_handed_over),
        cmocka_unit_test(inherited_blocks_come_before_every_stream),
        cmocka_unit_test(time_passes_in_steps),
        cmocka_unit_test(rss_is_read_in_pauses_and_after_the_last_call),
        cmocka_unit_test(rss_is_read_at_the_end_behind_skipped_events),
        cmocka_unit_test(traces_that_contradict_themselves_are_refused),
        cmocka_unit_test(any_schedule_keeps_each_slots_order),
        cmocka_unit_test(samples_follow_new_maxima),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
