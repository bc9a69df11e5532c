// SPDX-License-Identifier: Apache-2.0
// Extensions of steady loads: the input describes some calls and how long their blocks live; that is repeated until it is a
// steady load, continued to a later time, written, and read through every door.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checked_conversion.h"
#include "extension.h"
#include "fuzz_input.h"
#include "trace_writer.h"

enum { THREADS = 4, CALLS_MAX = 24, REPETITIONS = 400, DUE = 512, STEP_NS = 20000000, UNIT_NS = 1000 };

// One allocation of the load, with what comes of the block.
struct call {
    uint8_t thread, by_thread;
    bool grows;      // it is reallocated at half its life
    uint64_t bytes;  // 0: nothing is called at this step
    unsigned life;   // in steps
};

struct due {
    uint32_t slot, next;  // next: another of the same step, plus one
    uint8_t by_thread;
    bool grows;
};

struct load {
    struct ht_trace_writer *writer;
    struct ht_thread thread[THREADS];   // in the order of their first calls
    uint32_t threads, number[THREADS];  // of each its number in that order, plus one
    struct call call[CALLS_MAX];
    unsigned calls;
    struct due block[DUE];
    uint32_t first_due[DUE];  // by step, modulo
    uint32_t unused[DUE], unused_count;
    uint64_t now_ns, events;
};

static void put(struct load *load, unsigned function, unsigned thread, uint32_t slot, uint64_t bytes) {
    if (!load->number[thread]) {
        load->thread[load->threads] =
            (struct ht_thread){.tid = thread + 1, .first_event = load->events, .start_ns = load->now_ns};
        load->number[thread] = ++load->threads;
    }
    uint32_t number = load->number[thread] - 1;
    load->thread[number].calls++;
    load->thread[number].end_ns = load->now_ns;
    ht_trace_put_event(load->writer, ht_op((enum ht_function)function, HT_PLAIN), number, load->now_ns,
                       slot + 1, false, bytes, 0);
    load->events++;
}

static void set_due(struct load *load, uint32_t at, unsigned step) {
    load->block[at].next = load->first_due[step % DUE];
    load->first_due[step % DUE] = at + 1;
}

static void end_due(struct load *load, unsigned step) {
    uint32_t number = load->first_due[step % DUE];
    load->first_due[step % DUE] = 0;
    while (number) {
        uint32_t at = number - 1;
        struct due *block = &load->block[at];
        number = block->next;
        if (block->grows) {
            block->grows = false;
            put(load, HT_REALLOC, block->by_thread, at, 5000);
            set_due(load, at, step + 1 + block->slot);
            continue;
        }
        put(load, HT_FREE, block->by_thread, at, 0);
        load->unused[load->unused_count++] = at;
    }
}

static void begin_call(struct load *load, const struct call *call, unsigned step) {
    if (!call->bytes || !load->unused_count) return;
    uint32_t at = load->unused[--load->unused_count];
    unsigned first = call->grows ? call->life / 2 : call->life;
    load->block[at] =
        (struct due){.slot = call->life / 2, .by_thread = call->by_thread, .grows = call->grows};
    put(load, HT_MALLOC, call->thread, at, call->bytes);
    set_due(load, at, step + 1 + first);
}

static void read_calls(struct load *load, struct fuzz_input *input) {
    load->calls = 1 + fuzz_take_byte(input) % CALLS_MAX;
    for (unsigned i = 0; i < load->calls; i++) {
        uint8_t who = fuzz_take_byte(input), size = fuzz_take_byte(input), life = fuzz_take_byte(input);
        load->call[i] =
            (struct call){.thread = who % THREADS,
                          .by_thread = who / 4 % THREADS,
                          .grows = who & 128,
                          .bytes = size ? (uint64_t)(size & 15) + (UINT64_C(16) << (size >> 5)) : 0,
                          .life = life};
    }
}

static bool write_load(struct load *load, const char *path, struct ht_error *error) {
    load->writer = ht_trace_create(path, UNIT_NS, 1, error);
    FUZZ_EXPECT(load->writer, "%s", error->message);
    ht_trace_put_context(load->writer, "{}");
    for (uint32_t i = 0; i < DUE; i++) load->unused[load->unused_count++] = DUE - 1 - i;
    for (unsigned step = 0; step < REPETITIONS * load->calls; step++) {
        load->now_ns += STEP_NS;
        end_due(load, step);
        begin_call(load, &load->call[step % load->calls], step);
    }
    FUZZ_EXPECT(!ht_trace_finish(load->writer, load->thread, load->threads, "{}", NULL, error), "%s",
                error->message);
    return load->events > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    struct fuzz_input input = {data, bytes};
    struct load *load = calloc(1, sizeof *load);
    struct ht_error error = {0};
    struct extended_totals totals;
    char path[FUZZ_PATH_BYTES];
    snprintf(path, sizeof path, "%s/heaptape-load-%d.bin", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm",
             (int)getpid());
    uint64_t times = 2 + fuzz_take_byte(&input) % 4;
    read_calls(load, &input);
    checked_output_begin(UNIT_NS);
    bool written = write_load(load, path, &error);
    struct extension_request request = {times * load->now_ns, UINT64_MAX, UINT64_MAX};
    free(load);
    if (!written) {
        unlink(path);
        return 0;
    }
    struct ht_trace_reader *reader = ht_trace_open(path, &error);
    FUZZ_EXPECT(reader, "%s", error.message);
    struct ht_trace_reader *extended = extension_open(reader, path, &request, NULL, &error);
    if (extended) {
        // The load itself was put as well: it is counted anew.
        const char *output = checked_output_begin(UNIT_NS);
        FUZZ_EXPECT(!write_extended(extended, output, true, &totals, &error), "%s", error.message);
        checked_output_end(NULL);
    } else {
        FUZZ_EXPECT(error.status && *error.message, "an extension that fails without an error");
    }
    ht_trace_close(extended ? extended : reader);
    unlink(path);
    return 0;
}
