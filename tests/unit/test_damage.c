// SPDX-License-Identifier: Apache-2.0
// Files cut at every byte, and with every byte changed (in the quick tier, at some): what is shown is what was there, up to a whole
// section, and one error line says where it ends. Nothing is ever shown that was not recorded.
#include "unit_support.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "converted_log.h"
#include "raw_log_builder.h"
#include "trace_json.h"

enum { EVENTS_MAX = 256, CALLS = 1400, LONG_CALLS = 6000, FILE_BYTES_MAX = 1 << 17, ZEROED_BYTES = 4096 };

struct event {
    uint8_t op;
    uint32_t thread, slot;
    uint64_t time_ns, size, extra;
};

struct contents {
    struct event event[EVENTS_MAX];
    size_t events;
    char *context, *totals;  // NULL where they are missing
    bool truncated, failed;
    struct ht_error error;
};

// A file in memory, written anew for every case.
struct memory_file {
    int fd;
    char path[64];
};

static struct memory_file memory_file(void) {
    struct memory_file file = {.fd = memfd_create("damaged", MFD_CLOEXEC)};
    assert_true(file.fd >= 0);
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.fd);
    return file;
}

static void put_file(const struct memory_file *file, const void *bytes, size_t count) {
    assert_int_equal(ftruncate(file->fd, (off_t)count), 0);
    assert_int_equal(pwrite(file->fd, bytes, count, 0), count);
}

static size_t load(const char *path, uint8_t bytes[FILE_BYTES_MAX]) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, FILE_BYTES_MAX, file);
    assert_true(count > 0 && count < FILE_BYTES_MAX);
    fclose(file);
    return count;
}

// ---- traces ----

// Small, but of several events sections: each long pause begins one.
static size_t small_trace(uint8_t bytes[FILE_BYTES_MAX]) {
    char path[256];
    struct ht_error error;
    struct ht_trace_writer *writer = ht_trace_create(unit_path(path, "damage.bin"), 1, 3, &error);
    uint64_t seed = 5, time = 0;
    assert_non_null(writer);
    ht_trace_put_context(writer, "{\"command\":\"unit\"}");
    for (uint32_t i = 0; i < 120; i++) {
        time += i % 30 == 29 ? UINT64_C(1) << 33 : unit_random(&seed) % 50;
        bool frees = i % 3 == 2;
        ht_trace_put_event(writer, ht_op(frees ? HT_FREE : HT_MALLOC, HT_PLAIN), i % 7 == 6, time,
                           1 + i - frees, i % 2, frees ? 0 : unit_random(&seed) % 4096, 0);
        if (i % 10 == 0) {
            ht_trace_put_sample(writer,
                                &(struct ht_sample){.time_ns = time, .event = i, .rss_anon_bytes = i});
            ht_trace_put_residency(writer, &(struct ht_residency){.event = i, .pages_after = i});
        }
    }
    const struct ht_thread threads[2] = {{.tid = 5, .name = "one"}, {.tid = 6, .first_event = 1}};
    assert_int_equal(ht_trace_finish(writer, threads, 2, "{\"events\":120}", NULL, &error), 0);
    size_t count = load(path, bytes);
    unlink(path);
    return count;
}

static void take_section(struct contents *contents, const struct ht_events *events) {
    for (uint32_t row = 0; row < events->rows; row++) {
        assert_true(contents->events < EVENTS_MAX);
        contents->event[contents->events++] = (struct event){.op = events->op[row],
                                                             .thread = events->thread[row],
                                                             .slot = events->slot[row],
                                                             .time_ns = events->time_ns[row],
                                                             .size = events->size[row],
                                                             .extra = events->extra[row]};
    }
}

// As info and dump read it, up to the first error.
static void read_trace(const char *path, struct contents *contents) {
    memset(contents, 0, sizeof *contents);
    struct ht_trace_reader *reader = ht_trace_open(path, &contents->error);
    contents->failed = !reader;
    if (!reader) return;
    contents->truncated = ht_trace_truncated(reader);
    for (size_t i = 0; i < ht_trace_sections(reader) && !contents->failed; i++) {
        struct ht_events events;
        if (ht_trace_section(reader, i)->kind != HT_SECTION_EVENTS) continue;
        contents->failed = ht_trace_events(reader, i, &events, &contents->error) != 0;
        if (!contents->failed) take_section(contents, &events);
    }
    struct ht_error error = {0};
    contents->context = ht_trace_context_json(reader, &error);
    if (contents->context || !error.status) contents->totals = ht_trace_totals_json(reader, &error);
    struct ht_trace_facts facts;
    if (!error.status && !ht_trace_facts(reader, &facts, &error)) ht_trace_facts_free(&facts);
    if (error.status && !contents->failed) {
        contents->failed = true;
        contents->error = error;
    }
    if (!contents->failed) {
        json_t *info = trace_json_info(reader, &error);
        assert_non_null(info);
        json_decref(info);
    }
    ht_trace_close(reader);
}

static void forget(struct contents *contents) {
    free(contents->context);
    free(contents->totals);
}

static void assert_one_line(const struct contents *contents, const char *path) {
    assert_int_equal(contents->error.status, HT_EXIT_INPUT);
    assert_memory_equal(contents->error.message, path, strlen(path));
    assert_non_null(strstr(contents->error.message, ": offset "));
    assert_null(strchr(contents->error.message, '\n'));
}

static void assert_begins(const struct contents *whole, const struct contents *part) {
    assert_true(part->events <= whole->events);
    assert_memory_equal(part->event, whole->event, part->events * sizeof *whole->event);
}

static void a_trace_cut_anywhere_shows_its_whole_sections(void **state) {
    (void)state;
    static uint8_t bytes[FILE_BYTES_MAX];
    static struct contents whole, part;
    struct memory_file file = memory_file();
    size_t count = small_trace(bytes), before = 0, kinds = 0, stride = unit_stride(7);
    put_file(&file, bytes, count);
    read_trace(file.path, &whole);
    assert_false(whole.failed || whole.truncated);
    assert_int_equal(whole.events, 120);
    for (size_t cut = 0; cut < count; cut += stride) {
        put_file(&file, bytes, cut);
        read_trace(file.path, &part);
        if (cut < sizeof(struct ht_trace_header)) {
            assert_true(part.failed && part.events == 0);
            assert_one_line(&part, file.path);
        } else {
            // Never less than from a shorter file, and never a part of a section.
            assert_true(part.truncated && !part.failed && part.events >= before);
            kinds += part.events > before;
            before = part.events;
        }
        assert_begins(&whole, &part);
        forget(&part);
    }
    assert_int_equal(before, 120);
    assert_int_equal(kinds, 5);  // events sections
    forget(&whole);
    close(file.fd);
}

static bool same_text(const char *a, const char *b) { return a && b && !strcmp(a, b); }

static void a_changed_byte_never_changes_what_is_shown(void **state) {
    (void)state;
    static uint8_t bytes[FILE_BYTES_MAX];
    static struct contents whole, part;
    static const uint8_t changes[] = {0x01, 0xff};
    struct memory_file file = memory_file();
    size_t count = small_trace(bytes), stride = unit_stride(7);
    put_file(&file, bytes, count);
    read_trace(file.path, &whole);
    for (size_t at = 0; at < count; at += stride)
        for (unsigned change = 0; change < sizeof changes; change++) {
            bytes[at] ^= changes[change];
            put_file(&file, bytes, count);
            read_trace(file.path, &part);
            assert_begins(&whole, &part);
            // Silence would be the fault: whatever was damaged is told, by an error or as a file cut short.
            assert_true(part.failed || part.truncated);
            if (part.failed) assert_one_line(&part, file.path);
            if (part.context) assert_true(same_text(part.context, whole.context));
            if (part.totals) assert_true(same_text(part.totals, whole.totals));
            forget(&part);
            bytes[at] ^= changes[change];
        }
    forget(&whole);
    close(file.fd);
}

// ---- raw logs ----

// Two threads, a chunk each, of a recording that stopped early: only such a log may end before its chunks
// do.
static size_t small_log(uint8_t bytes[FILE_BYTES_MAX]) {
    static struct raw_log_builder builder;
    char path[256];
    builder_open(&builder, unit_path(path, "damage.mraw"));
    builder.header.state = HT_RAW_STOPPED;
    builder.context = "command=unit";
    for (unsigned i = 0; i < CALLS; i++) {
        struct ht_cursor *cursor = builder_cursor(&builder, i % 2);
        uint64_t stamp = 10 + i * 1000, address = 0x10000 + i / 4 * 64 + i % 2 * 16;
        if (i % 4 < 2) ht_append_call(cursor, HT_RAW_MALLOC, stamp, address, (uint64_t)i << 28);
        else ht_append_bare(cursor, HT_RAW_FREE, stamp, address);
        builder_count(&builder, i % 2);
    }
    builder_close(&builder);
    size_t count = load(path, bytes);
    unlink(path);
    return count;
}

// Goes through all records without writing a trace: what would be live at the end. Returns 0 or -1 with
// error.
static int follow(const char *path, size_t *live, uint64_t *calls, struct ht_error *error) {
    const struct merge_progress quiet = {0};
    const struct fork_point end = {.stamp = UINT64_MAX};
    struct ht_raw_log log;
    struct live_blocks blocks = {0};
    uint32_t threads;
    if (ht_raw_open(&log, path, error)) return -1;
    struct ht_raw_damage damage;
    int status = ht_raw_count_calls(&log, calls, &threads, error);
    if (!status) status = merge_to_fork(&log, NULL, &end, &blocks, &damage, &quiet, error);
    *live = blocks.count;
    live_blocks_free(&blocks);
    ht_raw_close(&log);
    return status;
}

// Streams of a cut log end at different times, so it is each thread's calls that are those of the whole log.
static void assert_threads_begin(const struct converted_log *whole, const struct converted_log *part) {
    size_t at[2] = {0};
    for (size_t i = 0; i < part->events; i++) {
        const struct converted_event *event = &part->event[i];
        assert_true(event->thread < 2);
        size_t *next = &at[event->thread];
        while (*next < whole->events && whole->event[*next].thread != event->thread) ++*next;
        assert_true(*next < whole->events);
        assert_int_equal(whole->event[*next].time_ns, event->time_ns);
        assert_int_equal(whole->event[*next].size, event->size);
        assert_int_equal(ht_op_function(whole->event[(*next)++].op), ht_op_function(event->op));
    }
}

static void a_log_cut_anywhere_holds_its_calls_up_to_there(void **state) {
    (void)state;
    static uint8_t bytes[FILE_BYTES_MAX];
    static struct converted_log whole, converted;
    struct memory_file file = memory_file();
    struct ht_error error;
    size_t count = small_log(bytes), failures = 0, successes = 0, stride = unit_stride(7);
    put_file(&file, bytes, count);
    assert_int_equal(count, HT_RAW_HEADER_BYTES + 2 * BUILDER_CHUNK_BYTES);
    assert_int_equal(converted_open(&whole, file.path, NULL, &error), 0);
    assert_int_equal(whole.events, CALLS);
    for (size_t back = 1; back <= count; back += stride) {
        size_t cut = count - back;
        struct contents part = {.failed = false};
        uint64_t calls = 0;
        size_t live = 0;
        assert_int_equal(ftruncate(file.fd, (off_t)cut), 0);
        if (follow(file.path, &live, &calls, &part.error)) {
            assert_one_line(&part, file.path);
            failures++;
            continue;
        }
        assert_true(cut >= HT_RAW_HEADER_BYTES && live <= CALLS && calls <= CALLS);
        // A trace takes longer to write: of every fiftieth.
        if (successes++ % 50) continue;
        assert_int_equal(converted_open(&converted, file.path, NULL, &error), 0);
        assert_threads_begin(&whole, &converted);
        converted_close(&converted);
    }
    // All cuts within the header, and none else.
    assert_true((failures + 1) * stride >= HT_RAW_HEADER_BYTES &&
                failures * stride <= HT_RAW_HEADER_BYTES + stride);
    assert_true(successes * stride > 1000);
    converted_close(&whole);
    close(file.fd);
}

// A conversion takes a few milliseconds: the thorough tier takes some places, too.
static size_t stride_of(size_t quick, size_t thorough) {
    size_t stride = unit_stride(quick);
    return stride > 1 ? stride : thorough;
}

// Three threads of several chunks each. ended: it says how many calls they made.
static size_t long_log(uint8_t bytes[FILE_BYTES_MAX], bool ended) {
    static struct raw_log_builder builder;
    char path[256];
    builder_open(&builder, unit_path(path, "damage.mraw"));
    for (unsigned i = 0; i < LONG_CALLS; i++) {
        unsigned stream = i % 3;
        struct ht_cursor *cursor = builder_cursor(&builder, stream);
        uint64_t stamp = 10 + i * 1000, address = 0x10000 + i / 6 * 64 + stream * 16;
        if (i % 6 < 3) ht_append_call(cursor, HT_RAW_MALLOC, stamp, address, (uint64_t)i << 28);
        else ht_append_bare(cursor, HT_RAW_FREE, stamp, address);
        builder_count(&builder, stream);
    }
    if (ended) builder.header.ended_calls = LONG_CALLS;
    builder_close(&builder);
    size_t count = load(path, bytes);
    unlink(path);
    return count;
}

// Where the last chunk of each of three streams begins.
static void find_last_chunks(const uint8_t *bytes, size_t count, size_t at[3]) {
    for (size_t offset = HT_RAW_HEADER_BYTES; offset < count; offset += BUILDER_CHUNK_BYTES) {
        struct ht_raw_chunk chunk;
        memcpy(&chunk, bytes + offset, sizeof chunk);
        assert_true(chunk.magic == HT_CHUNK_MAGIC && chunk.stream < 3);
        at[chunk.stream] = offset;
    }
}

static bool is_same_call(const struct converted_log *a, const struct converted_event *of_a,
                         const struct converted_log *b, const struct converted_event *of_b) {
    return a->facts.threads[of_a->thread].tid == b->facts.threads[of_b->thread].tid &&
           of_a->time_ns == of_b->time_ns && of_a->size == of_b->size &&
           ht_op_function(of_a->op) == ht_op_function(of_b->op);
}

// What is left is as it was, and in its order, except one call, the last bytes of which may be zeros.
static void assert_goes_on(const struct converted_log *whole, const struct converted_log *part) {
    size_t next = 0, others = 0;
    for (size_t i = 0; i < part->events; i++) {
        if (!ht_op_is_call(part->event[i].op)) continue;
        size_t at = next;
        while (at < whole->events && !is_same_call(whole, &whole->event[at], part, &part->event[i])) at++;
        if (at < whole->events) next = at + 1;
        else others++;
    }
    assert_true(others <= 1);
}

static void zeros_lose_no_call_without_a_word(void **state) {
    (void)state;
    static uint8_t bytes[FILE_BYTES_MAX], kept[ZEROED_BYTES];
    static struct converted_log whole, part;
    struct memory_file file = memory_file();
    struct ht_error error;
    size_t lost = 0, stride = stride_of(ZEROED_BYTES, 97);
    for (unsigned ended = 0; ended < 2; ended++) {
        size_t count = long_log(bytes, ended), last[3];
        find_last_chunks(bytes, count, last);
        put_file(&file, bytes, count);
        assert_int_equal(converted_open(&whole, file.path, NULL, &error), 0);
        assert_int_equal(whole.totals.events, LONG_CALLS);
        assert_int_equal(whole.totals.damage.places, 0);
        for (size_t at = HT_RAW_HEADER_BYTES; at + ZEROED_BYTES <= count; at += stride) {
            memcpy(kept, bytes + at, ZEROED_BYTES);
            memset(bytes + at, 0, ZEROED_BYTES);
            put_file(&file, bytes, count);
            memcpy(bytes + at, kept, ZEROED_BYTES);
            bool at_end = false;
            for (unsigned i = 0; i < 3; i++)
                at_end |= at + ZEROED_BYTES > last[i] && at < last[i] + BUILDER_CHUNK_BYTES;
            assert_int_equal(converted_open(&part, file.path, NULL, &error), 0);
            const struct ht_raw_damage *damage = &part.totals.damage;
            assert_goes_on(&whole, &part);
            assert_true(part.totals.events + damage->lost_calls <= LONG_CALLS);
            if (ended || !at_end) assert_int_equal(part.totals.events + damage->lost_calls, LONG_CALLS);
            assert_true(damage->places || part.totals.events == LONG_CALLS || (at_end && !ended));
            assert_true(!damage->end_lost || at_end);
            assert_true(!damage->places || strstr(damage->first, "offset ") == damage->first);
            lost += damage->lost_calls > 0;
            converted_close(&part);
        }
        converted_close(&whole);
    }
    assert_true(lost > 5);
    close(file.fd);
}

// Nothing is known of what bytes of another value say; but a line says so, or nothing else changes.
static void changed_bytes_end_no_conversion(void **state) {
    (void)state;
    static uint8_t bytes[FILE_BYTES_MAX];
    static struct converted_log part;
    struct memory_file file = memory_file();
    struct ht_error error;
    size_t count = long_log(bytes, true), damaged = 0, stride = stride_of(1511, 61);
    for (size_t at = HT_RAW_HEADER_BYTES; at < count; at += stride) {
        uint8_t kept = bytes[at];
        bytes[at] ^= (uint8_t)(1 + at % 255);
        put_file(&file, bytes, count);
        bytes[at] = kept;
        assert_int_equal(converted_open(&part, file.path, NULL, &error), 0);
        damaged += part.totals.damage.places > 0;
        assert_true(part.totals.damage.lost_calls <= LONG_CALLS + count / 2);
        converted_close(&part);
    }
    assert_true(damaged * stride > count / 16);
    close(file.fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_trace_cut_anywhere_shows_its_whole_sections),
                                       cmocka_unit_test(a_changed_byte_never_changes_what_is_shown),
                                       cmocka_unit_test(a_log_cut_anywhere_holds_its_calls_up_to_there),
                                       cmocka_unit_test(zeros_lose_no_call_without_a_word),
                                       cmocka_unit_test(changed_bytes_end_no_conversion)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
