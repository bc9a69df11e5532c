// SPDX-License-Identifier: Apache-2.0
// The replay form of large blocks that are filled bit by bit: what is touched when, and in whose stream.
#include "unit_support.h"

#include <string.h>

#include "form_builder.h"
#include "trace_writer.h"

#define MS             UINT64_C(1000000)
#define LENGTH(array)  (sizeof(array) / sizeof *(array))
#define OP(what, kind) ((uint8_t)(HT_##what | HT_##kind << 5))

struct event {
    uint8_t op;
    uint32_t thread;
    uint64_t time_ns;
    uint32_t slot;
    uint64_t size;
};

struct told {
    const struct event *event;
    size_t events;
    uint32_t threads;  // the last of three and more has ended
    const struct ht_residency *residency;
    const struct ht_residency_step *step;
    size_t steps;
    const struct ht_sample *sample;
    size_t samples;
    size_t residencies;  // 0: one, if there is any
};

static void build(const struct told *told, struct ht_form_options options, struct ht_built_form *built) {
    char path[256];
    struct ht_error error = {0};
    struct ht_trace_writer *writer = ht_trace_create(unit_path(path, "touching.bin"), 1, 1, &error);
    assert_non_null(writer);
    assert_int_equal(ht_trace_put_context(writer, "{}"), 0);
    for (size_t i = 0; i < told->events; i++) {
        const struct event *e = &told->event[i];
        ht_trace_put_event(writer, e->op, e->thread, e->time_ns, e->slot, false, e->size,
                           ht_op_function(e->op) == HT_CALLOC);
    }
    size_t residencies = told->residency && !told->residencies ? 1 : told->residencies;
    for (size_t i = 0; i < residencies; i++) ht_trace_put_residency(writer, &told->residency[i]);
    for (size_t i = 0; i < told->steps; i++) ht_trace_put_residency_step(writer, &told->step[i]);
    for (size_t i = 0; i < told->samples; i++) ht_trace_put_sample(writer, &told->sample[i]);
    struct ht_thread rows[4] = {0};
    for (uint32_t i = 0; i < told->threads; i++) {
        rows[i].tid = 500 + i;
        rows[i].ended = i == 2;
        rows[i].end_ns = 50 * MS;
    }
    assert_int_equal(ht_trace_finish(writer, rows, told->threads, "{}", NULL, &error), 0);
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    assert_non_null(reader);
    if (ht_form_build(reader, path, &options, built, &error)) fail_msg("%s", error.message);
    ht_trace_close(reader);
    unlink(path);
}

// A stream in short: what it touches, samples, allocates and frees, and at what time.
static struct done {
    uint64_t time_ns;
    char what;  // 't', 's', 'm', 'f'
    uint32_t slot;
    uint64_t from, until;  // pages; of an allocation: touched at once
} done[40000];

static size_t read_stream(const struct ht_built_form *built, uint32_t number, bool samples) {
    size_t count = 0;
    uint64_t time_ns = 0;
    for (uint32_t unit = ht_form_streams(built->form)[number].first_unit; unit != HT_SEGMENT_NONE;
         unit = ht_form_segment(built->form, unit)->next_unit) {
        const struct ht_segment *segment = ht_form_segment(built->form, unit);
        const uint64_t *word = ht_segment_words(segment), *end = word + segment->words - 1;
        for (; word < end; word += ht_word_length(*word)) {
            struct done entry = {.time_ns = time_ns};
            enum ht_word_op op = ht_word_op(*word);
            if (op == HT_WORD_TIME) {
                assert_true(ht_word_time_ns(*word) >= time_ns);
                time_ns = ht_word_time_ns(*word);
                continue;
            }
            bool sample = op == HT_WORD_MARK && ht_word_slot(*word) == HT_MARK_SAMPLE;
            if (op == HT_WORD_ORDER || (op == HT_WORD_MARK && !(sample && samples))) continue;
            entry.what = op == HT_WORD_MARK ? 's' : op == HT_WORD_FREE ? 'f' : 'm';
            if (op != HT_WORD_MARK) {
                struct ht_word_call call = ht_word_call(word);
                entry.slot = call.slot;
                entry.until = call.pages;
                if (ht_word_touches(*word)) {
                    entry.what = 't';
                    entry.from = call.extra;
                }
            }
            assert_true(count < LENGTH(done));
            done[count++] = entry;
        }
    }
    return count;
}

// Pages of the slot that are touched by then; that each portion begins where the last one ended is checked.
static uint64_t touched_by(size_t count, uint32_t slot, uint64_t time_ns) {
    uint64_t pages = 0;
    for (size_t i = 0; i < count && done[i].time_ns <= time_ns; i++) {
        if (done[i].slot != slot || done[i].what == 's') continue;
        if (done[i].what == 't') assert_int_equal(done[i].from, pages);
        pages = done[i].what == 'f' ? 0 : done[i].until;
    }
    return pages;
}

static size_t count_of(size_t count, char what) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) found += done[i].what == what;
    return found;
}

// 4 MiB: 24 pages at once, 512 after 32 ms, all 1,024 after 96 ms.
static const struct event fill[] = {{OP(MALLOC, PLAIN), 0, 0, 1, 4 << 20},
                                    {OP(FREE, PLAIN), 0, 96 * MS, 1, 0}};
static const struct ht_residency full = {.event = 0, .pages_before = 24, .pages_after = 1024};
static const struct ht_residency_step steps[] = {{0, 96 * MS, 1024}, {0, 32 * MS, 512}};

static void a_block_is_filled_between_probes(void **state) {
    (void)state;
    struct ht_built_form built;
    const struct told told = {fill, LENGTH(fill), 1, &full, steps, LENGTH(steps), NULL, 0};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false);
    assert_int_equal(done[0].what, 'm');
    assert_int_equal(done[0].until, 24);
    assert_int_equal(done[count - 1].what, 'f');
    assert_int_equal(count_of(count, 'm') + count_of(count, 'f'), 2);
    assert_in_range(count_of(count, 't'), 40, 2 * 64);
    assert_in_range(touched_by(count, 1, 16 * MS), 260, 276);
    assert_in_range(touched_by(count, 1, 32 * MS), 496, 528);
    assert_in_range(touched_by(count, 1, 64 * MS), 760, 776);
    assert_int_equal(touched_by(count - 1, 1, 96 * MS), 1024);
    assert_int_equal(built.touched_peak_bytes, 4 << 20);
    assert_int_equal(built.form->operations, 2);
    ht_form_free(&built);
}

// Samples are taken while it is filled, and every copy of the trace fills its own block.
static void pauses_and_copies_are_filled_too(void **state) {
    (void)state;
    struct ht_built_form built;
    const struct told told = {fill, LENGTH(fill), 1, &full, steps, LENGTH(steps), NULL, 0};
    build(&told, (struct ht_form_options){.end_ns = 100 * MS, .one_thread = true, .scale = 3}, &built);
    size_t count = read_stream(&built, 0, true), samples = 0;
    uint64_t until = 0;
    for (size_t i = 0; i < count; i++) {
        if (done[i].what == 't' && done[i].slot == 4) until = done[i].until;
        if (done[i].what != 's' || done[i].time_ns < MS || done[i].time_ns > 95 * MS) continue;
        uint64_t at = done[i].time_ns / MS, wanted = at < 32 ? 24 + at * 488 / 32 : 512 + (at - 32) * 8;
        assert_in_range(until, wanted - 16, wanted + 16);
        samples++;
    }
    assert_true(samples >= 8);
    for (uint32_t copy = 0; copy < 3; copy++) assert_in_range(touched_by(count, 3 + copy, 64 * MS), 760, 776);
    ht_form_free(&built);
}

// Which of the slot's pages are touched by then, how often.
static void count_touches(size_t count, uint32_t slot, uint64_t time_ns, uint8_t *touches, size_t pages) {
    memset(touches, 0, pages);
    for (size_t i = 0; i < count && done[i].time_ns <= time_ns; i++) {
        if (done[i].slot != slot || (done[i].what != 't' && done[i].what != 'm')) continue;
        assert_true(done[i].from <= done[i].until && done[i].until <= pages);
        for (uint64_t page = done[i].from; page < done[i].until; page++) touches[page]++;
    }
}

static uint64_t touched_in(const uint8_t *touches, size_t from, size_t until) {
    uint64_t pages = 0;
    for (size_t page = from; page < until; page++) {
        assert_true(touches[page] <= 1);
        pages += touches[page];
    }
    return pages;
}

// From both ends to the middle: 64 pages at once, 512 after 32 ms, 768 after 96 ms. 12 more, of which no step
// knows, come when the block ends.
static void a_block_is_filled_where_the_program_did(void **state) {
    (void)state;
    enum { PAGES = 1024 };
    static const struct ht_residency_step runs[] = {{0, 96 * MS, 768, 484, 540},
                                                    {0, 32 * MS, 512, 0, 100},
                                                    {0, 32 * MS, 512, 612, 412},
                                                    {0, 96 * MS, 768, 0, 228}};
    static const struct ht_residency some = {.event = 0, .pages_before = 64, .pages_after = 780};
    uint8_t touches[PAGES];
    struct ht_built_form built;
    const struct told told = {fill, LENGTH(fill), 1, &some, runs, LENGTH(runs), NULL, 0};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false);
    assert_int_equal(done[0].until, 64);
    count_touches(count, 1, 16 * MS, touches, PAGES);
    assert_in_range(touched_in(touches, 0, PAGES), 270, 306);
    count_touches(count, 1, 33 * MS, touches, PAGES);
    assert_int_equal(touched_in(touches, 0, 100) + touched_in(touches, 612, PAGES), 512);
    assert_in_range(touched_in(touches, 0, PAGES), 512, 528);
    count_touches(count, 1, 90 * MS, touches, PAGES);
    assert_int_equal(touched_in(touches, 228, 484), 0);
    count_touches(count, 1, 96 * MS, touches, PAGES);
    assert_int_equal(touched_in(touches, 0, 228) + touched_in(touches, 484, PAGES), 768);
    assert_int_equal(touched_in(touches, 228, 240), 12);
    assert_int_equal(touched_in(touches, 240, 484), 0);
    assert_int_equal(built.touched_peak_bytes, 780 * 4096);
    ht_form_free(&built);
}

// The process computed for 10 ms and then waited: that is when it touched its memory.
static void a_pause_touches_nothing(void **state) {
    (void)state;
    struct ht_built_form built;
    const struct ht_residency_step step = {0, 96 * MS, 1024};
    const struct ht_sample samples[] = {{.time_ns = 0}, {.time_ns = 96 * MS, .cpu_ns = 10 * MS}};
    const struct told told = {fill, LENGTH(fill), 1, &full, &step, 1, samples, LENGTH(samples)};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false);
    assert_in_range(touched_by(count, 1, 5 * MS), 500, 540);
    assert_int_equal(touched_by(count, 1, 10 * MS), 1024);
    ht_form_free(&built);
}

// It computed for 30 ms in the first half, for 10 ms in the second: three quarters are touched in the first 30 ms, and the others
// when it goes on, not before.
static void pages_come_as_cpu_time_does(void **state) {
    (void)state;
    struct ht_built_form built;
    const struct ht_residency_step step = {0, 96 * MS, 1024};
    const struct ht_sample samples[] = {
        {.time_ns = 0}, {.time_ns = 48 * MS, .cpu_ns = 30 * MS}, {.time_ns = 96 * MS, .cpu_ns = 40 * MS}};
    const struct told told = {fill, LENGTH(fill), 1, &full, &step, 1, samples, LENGTH(samples)};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false);
    assert_in_range(touched_by(count, 1, 15 * MS), 360, 410);
    assert_in_range(touched_by(count, 1, 31 * MS), 740, 790);
    assert_in_range(touched_by(count, 1, 47 * MS), 740, 790);
    assert_in_range(touched_by(count, 1, 53 * MS), 870, 920);
    assert_int_equal(touched_by(count, 1, 59 * MS), 1024);
    ht_form_free(&built);
}

// A large block of which much stays untouched is made small and then freed.
static void a_block_that_became_small_is_all_touched(void **state) {
    (void)state;
    enum { EVENTS = 30000 };
    static struct event events[EVENTS] = {{OP(MALLOC, PLAIN), 0, 0, 1, 4 << 20},
                                          {OP(REALLOC, PLAIN), 0, 0, 1, 12000},
                                          {OP(FREE, PLAIN), 0, 0, 1, 0}};
    for (uint32_t i = 3; i < EVENTS; i++)
        events[i] = i % 2 ? (struct event){OP(MALLOC, PLAIN), 0, 0, 2, 100}
                          : (struct event){OP(FREE, PLAIN), 0, 0, 2, 0};
    const struct ht_residency ten = {.event = 0, .pages_before = 10, .pages_after = 10};
    const struct told told = {events, EVENTS, 1, &ten, NULL, 0, NULL, 0};
    struct ht_built_form built;
    build(&told, (struct ht_form_options){0}, &built);
    assert_int_equal(built.touched_peak_bytes, 10 * 4096);
    ht_form_free(&built);
}

// Of the memory at the peak, and of blocks that live then. As calloc's is taken what was resident when it returned.
static void what_calloc_wrote_is_known_at_the_peak(void **state) {
    (void)state;
    static struct event events[] = {{OP(CALLOC, PLAIN), 0, 0, 1, 4 << 20},
                                    {OP(MALLOC, PLAIN), 0, 0, 2, 12000},
                                    {OP(FREE, PLAIN), 0, 0, 1, 0},
                                    {OP(MALLOC, PLAIN), 0, 0, 1, 4 << 20},
                                    {OP(FREE, PLAIN), 0, 0, 1, 0}};
    const struct ht_residency some = {.event = 0, .pages_before = 700, .pages_after = 900};
    struct ht_built_form built;
    struct told told = {events, 3, 1, &some, NULL, 0, NULL, 0};
    build(&told, (struct ht_form_options){.scale = 2}, &built);
    assert_int_equal(built.touched_peak_bytes, 2 * (900 * 4096 + 12000));
    assert_int_equal(built.zeroed_peak_bytes, 2 * 700 * 4096);
    ht_form_free(&built);
    told.events = LENGTH(events);  // more is touched later, and none of it by calloc
    build(&told, (struct ht_form_options){0}, &built);
    assert_int_equal(built.touched_peak_bytes, 1024 * 4096 + 12000);
    assert_int_equal(built.zeroed_peak_bytes, 0);
    ht_form_free(&built);
    events[0].op = OP(MALLOC, PLAIN);
    told.events = 3;
    build(&told, (struct ht_form_options){0}, &built);
    assert_int_equal(built.zeroed_peak_bytes, 0);
    ht_form_free(&built);
}

// What another thread frees is touched at once: not so in a replay on one thread.
static void only_its_own_thread_fills_a_block(void **state) {
    (void)state;
    static const struct event events[] = {{OP(MALLOC, PLAIN), 0, 0, 1, 4 << 20},
                                          {OP(MALLOC, PLAIN), 1, 0, 2, 8},
                                          {OP(FREE, PLAIN), 1, 96 * MS, 1, 0}};
    for (int one_thread = 0; one_thread < 2; one_thread++) {
        struct ht_built_form built;
        const struct told told = {events, LENGTH(events), 2, &full, steps, LENGTH(steps), NULL, 0};
        build(&told, (struct ht_form_options){.one_thread = one_thread}, &built);
        size_t count = read_stream(&built, 0, false);
        assert_int_equal(done[0].until, one_thread ? 24 : 1024);
        assert_int_equal(count_of(count, 't') > 0, one_thread);
        ht_form_free(&built);
    }
}

// Blocks that are never freed: one of a thread that makes no further call, and one of a thread that ends.
static void blocks_are_filled_behind_the_last_call(void **state) {
    (void)state;
    static const struct event events[] = {{OP(MALLOC, PLAIN), 0, 0, 1, 4 << 20},
                                          {OP(MALLOC, PLAIN), 1, 0, 2, 8},
                                          {OP(MALLOC, PLAIN), 2, 0, 3, 4 << 20},
                                          {OP(MALLOC, PLAIN), 2, 40 * MS, 4, 8},
                                          {OP(FREE, PLAIN), 1, 90 * MS, 2, 0}};
    const struct ht_residency_step both[] = {{0, 64 * MS, 512}, {0, 128 * MS, 1024}, {2, 80 * MS, 1024}};
    struct ht_built_form built;
    const struct told told = {events, LENGTH(events), 3, NULL, both, LENGTH(both), NULL, 0};
    build(&told, (struct ht_form_options){.end_ns = 128 * MS}, &built);
    size_t count = read_stream(&built, 0, false);
    assert_in_range(touched_by(count, 1, 32 * MS), 248, 264);
    assert_in_range(touched_by(count, 1, 96 * MS), 760, 776);
    assert_int_equal(touched_by(count, 1, 128 * MS), 1024);
    count = read_stream(&built, 2, false);
    assert_in_range(touched_by(count, 3, 39 * MS), 480, 512);
    assert_int_equal(touched_by(count, 3, 50 * MS), 1024);
    ht_form_free(&built);
}

// A slice begins with what the block has had by then, and a forked child with what was first seen of it.
static void inherited_blocks_begin_as_full_as_they_were(void **state) {
    (void)state;
    static const struct event events[] = {{OP(INHERIT, PLAIN), 0, 0, 1, 4 << 20},
                                          {OP(MALLOC, PLAIN), 0, 0, 2, 8},
                                          {OP(FREE, PLAIN), 0, 64 * MS, 1, 0}};
    const struct ht_residency_step inherited[] = {{0, 0, 256}, {0, 64 * MS, 768}};
    struct ht_built_form built;
    const struct told told = {events, LENGTH(events), 1, NULL, inherited, LENGTH(inherited), NULL, 0};
    build(&told, (struct ht_form_options){0}, &built);
    assert_int_equal(read_stream(&built, 1, false), 1);
    assert_int_equal(done[0].until, 256);
    size_t count = read_stream(&built, 0, false);
    assert_int_equal(done[1].from, 256);
    assert_in_range(count_of(count, 't'), 16, 64);
    assert_int_equal(done[count - 2].until, 768);
    ht_form_free(&built);
}

// Steps of blocks that are none, beyond their ends, back in time and in number.
static void steps_that_make_no_sense_do_no_harm(void **state) {
    (void)state;
    static const struct event events[] = {{OP(MALLOC, PLAIN), 0, 10 * MS, 1, 100},
                                          {OP(MALLOC, PLAIN), 0, 20 * MS, 2, 1 << 20},
                                          {OP(REALLOC, PLAIN), 0, 30 * MS, 2, 2 << 20}};
    const struct ht_residency_step odd[] = {{0, 20 * MS, 9},
                                            {1, 0, 8},
                                            {1, 25 * MS, 4},
                                            {1, UINT64_MAX / 2, 200},
                                            {2, 1, 1 << 30},
                                            {7, 9, 9},
                                            {UINT64_MAX, 9, 9},
                                            {2, 2, 90, 5, UINT64_MAX},
                                            {2, 2, 90, UINT64_MAX, UINT64_MAX},
                                            {2, 2, 90, 3, 4},
                                            {2, 2, 90, 3, 0},
                                            {2, 3, 91, 600, 3}};
    struct ht_built_form built;
    const struct told told = {events, LENGTH(events), 1, NULL, odd, LENGTH(odd), NULL, 0};
    build(&told, (struct ht_form_options){.end_ns = 40 * MS}, &built);
    size_t count = read_stream(&built, 0, false);
    assert_int_equal(count_of(count, 'm'), 3);
    assert_int_equal(touched_by(2, 2, 20 * MS), 8);
    ht_form_free(&built);
}

// ---- traces by chance ----

enum { CHANCE_EVENTS = 3000, CHANCE_SLOTS = 40, CHANCE_STEPS = 2000, CHANCE_THREADS = 3 };

struct chance {
    struct event event[CHANCE_EVENTS];
    struct ht_residency_step step[CHANCE_STEPS];
};

// Returns whether the blocks are filled in runs.
static bool make_chance(struct chance *chance, uint64_t seed) {
    bool live[CHANCE_SLOTS + 1] = {0};
    uint32_t owner[CHANCE_SLOTS + 1] = {0};
    uint64_t time_ns = 0;
    for (size_t i = 0; i < CHANCE_EVENTS; i++) {
        uint32_t slot = 1 + (uint32_t)(unit_random(&seed) % CHANCE_SLOTS);
        uint32_t thread = (uint32_t)(i < CHANCE_THREADS ? i : unit_random(&seed) % CHANCE_THREADS);
        uint64_t size = unit_random(&seed) % 2 ? 100 : 20000 + unit_random(&seed) % 1000000;
        if (live[slot] && unit_random(&seed) % 4) thread = owner[slot];
        time_ns += unit_random(&seed) % 50 ? unit_random(&seed) % 1000 : unit_random(&seed) % (10 * MS);
        bool again = live[slot] && unit_random(&seed) % 2;
        chance->event[i] = (struct event){again        ? OP(REALLOC, PLAIN)
                                          : live[slot] ? OP(FREE, PLAIN)
                                                       : OP(MALLOC, PLAIN),
                                          thread, time_ns, slot, live[slot] && !again ? 0 : size};
        live[slot] = again || !live[slot];
        owner[slot] = thread;
    }
    bool runs = unit_random(&seed) % 2;
    for (size_t i = 0; i < CHANCE_STEPS; i++) {
        uint64_t event = unit_random(&seed) % (CHANCE_EVENTS + 5);
        uint64_t born_ns = event < CHANCE_EVENTS ? chance->event[event].time_ns : 0;
        chance->step[i] = (struct ht_residency_step){event, born_ns + unit_random(&seed) % (5 * MS),
                                                     unit_random(&seed) % 300};
        if (!runs) continue;
        // Some are of the same time as the one before.
        if (i && unit_random(&seed) % 2) chance->step[i] = chance->step[i - 1];
        chance->step[i].first_page = unit_random(&seed) % 300;
        chance->step[i].run_pages = unit_random(&seed) % 200;
    }
    return runs;
}

// A touch comes while its slot's block is live, in the stream that has it, and, if blocks are not filled in runs, goes on
// where the last one ended; no operation gets lost.
static void check_stream(const struct ht_built_form *built, uint32_t number, bool runs, uint64_t *operations,
                         uint64_t *touches) {
    uint64_t next_page[CHANCE_SLOTS + 1] = {0};
    bool has[CHANCE_SLOTS + 1] = {0};
    size_t count = read_stream(built, number, false);
    for (size_t i = 0; i < count; i++) {
        uint32_t slot = done[i].slot;
        if (done[i].what == 't') {
            assert_true(has[slot] && done[i].until > done[i].from && done[i].until <= 250 + 1);
            assert_true(runs || done[i].from == next_page[slot]);
            ++*touches;
        } else {
            ++*operations;
        }
        has[slot] = done[i].what != 'f';
        next_page[slot] = done[i].until;
    }
}

static void traces_by_chance_keep_order(void **state) {
    (void)state;
    static struct chance chance;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        bool runs = make_chance(&chance, seed);
        const struct told told = {chance.event, CHANCE_EVENTS, CHANCE_THREADS, NULL,
                                  chance.step,  CHANCE_STEPS,  NULL,           0};
        for (int one_thread = 0; one_thread < 2; one_thread++) {
            struct ht_built_form built;
            uint64_t operations = 0, touches = 0;
            build(&told,
                  (struct ht_form_options){.one_thread = one_thread, .end_ns = seed % 2 ? 900 * MS : 0},
                  &built);
            for (uint32_t i = 0; i < built.form->streams; i++)
                check_stream(&built, i, runs, &operations, &touches);
            assert_int_equal(operations, CHANCE_EVENTS);
            assert_true(touches > 100);
            ht_form_free(&built);
        }
    }
}

// A block that the recorder did not measure is filled as the last one of its size and kind that it did, or of the nearest size.
static void what_is_not_known_is_as_in_similar_blocks(void **state) {
    (void)state;
    static const struct event few[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 64000}, {OP(MALLOC, PLAIN), 0, 1, 2, 64000},
        {OP(MALLOC, PLAIN), 0, 2, 3, 64000}, {OP(MALLOC, PLAIN), 0, 3, 4, 64100},
        {OP(MALLOC, PLAIN), 0, 4, 5, 50000}, {OP(MALLOC, PLAIN), 0, 5, 6, 70000},
        {OP(MALLOC, PLAIN), 0, 6, 7, 16383}, {OP(CALLOC, PLAIN), 0, 7, 8, 64000},
        {OP(REALLOC, NULL), 0, 8, 9, 64000}, {OP(FREE, PLAIN), 0, 9, 1, 0},
        {OP(MALLOC, PLAIN), 0, 10, 1, 64000}};
    static const struct ht_residency known = {.event = 1, .pages_before = 1, .pages_after = 4};
    const uint64_t rule = HT_PAGES_BY_RULE, expected[] = {0, rule, 4, 4, 4, rule, 5, rule, rule, 4};
    struct ht_built_form built;
    const struct told told = {few, LENGTH(few), 1, &known, NULL, 0, NULL, 0};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false);
    for (size_t i = 0; i < count; i++)
        if (done[i].what == 'm' && i < LENGTH(few) - 2)
            assert_int_equal(done[i].until, expected[done[i].slot]);
    assert_int_equal(done[count - 1].until, 4);
    ht_form_free(&built);
}

// A block in memory that was resident before says nothing of how far the program fills such blocks.
static void what_was_resident_before_is_as_in_similar_blocks(void **state) {
    (void)state;
    static const struct event few[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 64000}, {OP(MALLOC, PLAIN), 0, 1, 2, 64000},
        {OP(FREE, PLAIN), 0, 2, 2, 0},       {OP(MALLOC, PLAIN), 0, 3, 2, 64000},
        {OP(MALLOC, PLAIN), 0, 4, 3, 64000}, {OP(MALLOC, PLAIN), 0, 5, 4, 64000}};
    static const struct ht_residency known[] = {{.event = 0, .pages_before = 16, .pages_after = 16},
                                                {.event = 1, .pages_before = 1, .pages_after = 4},
                                                {.event = 3, .pages_before = 17, .pages_after = 17},
                                                {.event = 5, .pages_before = 15, .pages_after = 16}};
    const uint64_t expected[] = {16, 4, 4, 4, 16};
    struct ht_built_form built;
    const struct told told = {few, LENGTH(few), 1, known, NULL, 0, NULL, 0, LENGTH(known)};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false), made = 0;
    for (size_t i = 0; i < count; i++)
        if (done[i].what == 'm') assert_int_equal(done[i].until, expected[made++]);
    assert_int_equal(made, LENGTH(expected));
    ht_form_free(&built);
}

// Pages that the program had no time to write are not touched, nor those of blocks of about the size of which nothing is known. A
// realloc has its pages from before.
static void what_could_not_be_written_is_left_alone(void **state) {
    (void)state;
    static const struct event few[] = {
        {OP(MALLOC, PLAIN), 0, 0, 1, 4 << 20},  {OP(MALLOC, PLAIN), 0, 1, 2, 9 << 19},
        {OP(MALLOC, PLAIN), 0, 2, 3, 16 << 20}, {OP(REALLOC, PLAIN), 0, 3, 1, 5 << 20},
        {OP(CALLOC, PLAIN), 0, 4, 4, 4 << 20},  {OP(CALLOC, PLAIN), 0, 5, 5, 4 << 20}};
    static const struct ht_residency known[] = {
        {.event = 0, .pages_before = 1024, .pages_after = 1025, .pages_spared = 1021},
        {.event = 3, .pages_before = 1100, .pages_after = 1280, .pages_spared = 1100},
        {.event = 4, .pages_before = 0, .pages_after = 1025}};
    const uint64_t expected[] = {4, 5, HT_PAGES_BY_RULE, 1280, 1025, 1025};
    struct ht_built_form built;
    struct told told = {few, LENGTH(few), 1, known, NULL, 0, NULL, 0, LENGTH(known)};
    build(&told, (struct ht_form_options){0}, &built);
    size_t count = read_stream(&built, 0, false), made = 0;
    for (size_t i = 0; i < count; i++)
        if (done[i].what == 'm') assert_int_equal(done[i].until, expected[made++]);
    assert_int_equal(made, LENGTH(expected));
    assert_int_equal(built.unmeasured_peak_bytes, (5 + 4096 + 1024) * 4096);
    ht_form_free(&built);
    told.residencies = 0;  // no others are known
    told.residency = NULL;
    build(&told, (struct ht_form_options){0}, &built);
    assert_int_equal(built.unmeasured_peak_bytes, 0);
    ht_form_free(&built);
}

// Of 64 KiB, on some machines. A last one is touched where all that the block lay in were resident.
static void pages_are_those_of_the_recording(void **state) {
    (void)state;
    enum { PAGE_BYTES = 64 << 10, PAGES = PAGE_BYTES / 4096 };
    static const struct event few[] = {{OP(MALLOC, PLAIN), 0, 0, 1, 8 * PAGE_BYTES},
                                       {OP(MALLOC, PLAIN), 0, 1, 2, 8 * PAGE_BYTES},
                                       {OP(MALLOC, PLAIN), 0, 2, 3, 8 * PAGE_BYTES}};
    static const struct ht_residency known[] = {
        {.event = 0, .pages_before = 1, .pages_after = 3},
        {.event = 1, .pages_before = 1, .pages_after = 9},
        {.event = 2, .pages_before = 1, .pages_after = UINT64_MAX / 2}};
    const uint64_t least[] = {3 * PAGES, 8 * PAGES + 1, 8 * PAGES + 1},
                   most[] = {3 * PAGES, UINT64_MAX, UINT64_MAX};
    struct ht_built_form built;
    const struct told told = {few, LENGTH(few), 1, known, NULL, 0, NULL, 0, LENGTH(known)};
    build(&told, (struct ht_form_options){.page_bytes = PAGE_BYTES}, &built);
    size_t count = read_stream(&built, 0, false), made = 0;
    for (size_t i = 0; i < count; i++)
        if (done[i].what == 'm') {
            assert_in_range(done[i].until, least[made], most[made]);
            made++;
        }
    assert_int_equal(made, LENGTH(least));
    ht_form_free(&built);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_block_is_filled_between_probes),
                                       cmocka_unit_test(pauses_and_copies_are_filled_too),
                                       cmocka_unit_test(a_block_is_filled_where_the_program_did),
                                       cmocka_unit_test(a_pause_touches_nothing),
                                       cmocka_unit_test(pages_come_as_cpu_time_does),
                                       cmocka_unit_test(a_block_that_became_small_is_all_touched),
                                       cmocka_unit_test(what_calloc_wrote_is_known_at_the_peak),
                                       cmocka_unit_test(only_its_own_thread_fills_a_block),
                                       cmocka_unit_test(blocks_are_filled_behind_the_last_call),
                                       cmocka_unit_test(inherited_blocks_begin_as_full_as_they_were),
                                       cmocka_unit_test(steps_that_make_no_sense_do_no_harm),
                                       cmocka_unit_test(traces_by_chance_keep_order),
                                       cmocka_unit_test(what_is_not_known_is_as_in_similar_blocks),
                                       cmocka_unit_test(what_was_resident_before_is_as_in_similar_blocks),
                                       cmocka_unit_test(what_could_not_be_written_is_left_alone),
                                       cmocka_unit_test(pages_are_those_of_the_recording)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
