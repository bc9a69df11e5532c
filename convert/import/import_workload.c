// SPDX-License-Identifier: Apache-2.0
// The workload (.wl) of glibc's malloc-trace-utils: a main stream that starts threads, each a stream of its
// own at its offset; a thread that comes to SYNC_R n waits until another has passed SYNC_W n.
//
// The file does not say how the threads ran beside each other, only what had to come before what. Here they
// take turns, a few calls each, in the order in which they were started or woken: the same file always gives
// the same trace.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "grow.h"
#include "import_formats.h"

enum { TURN_OPERATIONS = 16, PROGRESS_TURNS = 1024, NUMBER_BYTES_MAX = 10 };

enum workload_code {
    CODE_NOP,
    CODE_DONE,
    CODE_MALLOC,
    CODE_CALLOC,
    CODE_REALLOC,
    CODE_FREE,
    CODE_SYNC_W,
    CODE_SYNC_R,
    CODE_ALLOC_PTRS,
    CODE_ALLOC_SYNCS,
    CODE_NTHREADS,
    CODE_START_THREAD,
    CODE_MEMALIGN,
    CODE_VALLOC,
    CODE_PVALLOC,
    CODE_POSIX_MEMALIGN,
    CODES
};

static const uint8_t operands_of[CODES] = {
    [CODE_MALLOC] = 2,   [CODE_CALLOC] = 2,         [CODE_REALLOC] = 3,    [CODE_FREE] = 1,
    [CODE_SYNC_W] = 1,   [CODE_SYNC_R] = 1,         [CODE_ALLOC_PTRS] = 1, [CODE_ALLOC_SYNCS] = 1,
    [CODE_NTHREADS] = 1, [CODE_START_THREAD] = 1,   [CODE_MEMALIGN] = 3,   [CODE_VALLOC] = 2,
    [CODE_PVALLOC] = 2,  [CODE_POSIX_MEMALIGN] = 3,
};

struct operation {
    uint64_t offset;  // where it begins
    uint8_t code;
    uint64_t operand[3];
};

struct wl_thread {
    uint64_t at;    // offset of its next operation
    uint32_t next;  // behind it in the queue or among those that wait for the same sync, plus one
};

struct workload {
    const uint8_t *bytes;
    size_t count;
    const char *path;
    uint64_t ids, syncs;
    uint8_t *written;  // by sync, a bit each
    struct wl_thread *thread;
    uint32_t threads;
    size_t threads_room;
    uint32_t first, last;  // the queue of those that can run, plus one
    struct map64 waiters;  // sync plus one -> the thread that came to wait last, plus one
};

// Reads the operation at an offset and moves the offset behind it. NULL, or what was expected.
static const char *read_operation(const uint8_t *bytes, size_t count, uint64_t *at, struct operation *op) {
    op->offset = *at;
    if (*at >= count) return "an operation, or DONE, found the end";
    op->code = bytes[(*at)++];
    if (op->code >= CODES) return ht_found("an operation from 0 to 15", op->code);
    for (unsigned i = 0; i < operands_of[op->code]; i++) {
        uint64_t value = 0;
        unsigned length = 0;
        do {
            if (*at >= count || length++ == NUMBER_BYTES_MAX || value >> 57) return "a number below 2^64";
            value = value << 7 | (bytes[*at] & 0x7f);
        } while (bytes[(*at)++] & 0x80);
        op->operand[i] = value;
    }
    return NULL;
}

static int fail(const struct workload *w, uint64_t offset, const char *expected, struct ht_error *error) {
    return ht_error_input(error, w->path, offset, "expected %s", expected);
}

static int no_memory(const struct workload *w, struct ht_error *error) {
    return ht_error_memory(error, w->path, "cannot follow the threads");
}

// ---- the main stream ----

static void enqueue(struct workload *w, uint32_t thread) {
    w->thread[thread].next = 0;
    if (w->last) w->thread[w->last - 1].next = thread + 1;
    else w->first = thread + 1;
    w->last = thread + 1;
}

static bool add_thread(struct workload *w, uint64_t offset) {
    if (!ht_grow(&w->thread, &w->threads_room, w->threads + 1, sizeof *w->thread)) return false;
    w->thread[w->threads].at = offset;
    enqueue(w, w->threads++);
    return true;
}

static int read_main(struct workload *w, struct ht_error *error) {
    struct operation op;
    uint64_t threads_given = UINT64_MAX;
    for (uint64_t at = 0;;) {
        const char *expected = read_operation(w->bytes, w->count, &at, &op);
        if (expected) return fail(w, op.offset, expected, error);
        switch (op.code) {
        case CODE_NOP: break;
        case CODE_ALLOC_PTRS: w->ids = op.operand[0]; break;
        // Each sync that is used takes two bytes of the file at least, so that memory is bounded by it.
        case CODE_ALLOC_SYNCS: w->syncs = op.operand[0]; break;
        case CODE_NTHREADS: threads_given = op.operand[0]; break;
        case CODE_START_THREAD:
            if (op.operand[0] >= w->count || w->threads >= threads_given || w->threads >= HT_THREADS_MAX)
                return fail(w, op.offset,
                            ht_found("the offset of one of NTHREADS threads within the file", op.operand[0]),
                            error);
            if (!add_thread(w, op.operand[0])) return no_memory(w, error);
            break;
        case CODE_DONE:
            if (threads_given != UINT64_MAX && threads_given != w->threads)
                return fail(w, op.offset, ht_found("as many threads as NTHREADS says", w->threads), error);
            return 0;
        default: return fail(w, op.offset, ht_found("an operation of the main stream", op.code), error);
        }
    }
}

// ---- threads ----

// Lets those go on that wait for the sync, in the order in which they came.
static void wake(struct workload *w, uint64_t sync) {
    size_t place = map64_find(&w->waiters, sync + 1);
    if (!map64_has(&w->waiters, place)) return;
    uint32_t at = (uint32_t)w->waiters.entry[place].value, turned = 0;
    map64_remove_at(&w->waiters, place);
    while (at) {  // the list has the last comer first
        uint32_t next = w->thread[at - 1].next;
        w->thread[at - 1].next = turned;
        turned = at;
        at = next;
    }
    for (at = turned; at;) {
        uint32_t next = w->thread[at - 1].next;
        enqueue(w, at - 1);
        at = next;
    }
}

static bool wait_for(struct workload *w, uint32_t thread, uint64_t sync) {
    size_t place = map64_find(&w->waiters, sync + 1);
    w->thread[thread].next = map64_has(&w->waiters, place) ? (uint32_t)w->waiters.entry[place].value : 0;
    return map64_put(&w->waiters, sync + 1, (uint64_t)thread + 1);
}

static const char *take_call(struct import *import, const struct workload *w, uint32_t thread,
                             const struct operation *op) {
    struct import_call call = {.thread = thread, .address = op->operand[0], .size = op->operand[1]};
    switch (op->code) {
    case CODE_MALLOC: call.function = HT_MALLOC; break;
    case CODE_CALLOC:
        call.function = HT_CALLOC;
        call.extra = 1;  // the size is the product
        break;
    case CODE_REALLOC:
        call.function = HT_REALLOC;
        call.old_address = op->operand[1];
        call.size = op->operand[2];
        break;
    case CODE_FREE:
        call.function = HT_FREE;
        call.size = 0;
        break;
    case CODE_MEMALIGN:
    case CODE_POSIX_MEMALIGN:
        call.function = op->code == CODE_MEMALIGN ? HT_MEMALIGN : HT_POSIX_MEMALIGN;
        call.extra = op->operand[1];
        call.size = op->operand[2];
        break;
    case CODE_VALLOC: call.function = HT_VALLOC; break;
    case CODE_PVALLOC: call.function = HT_PVALLOC; break;
    default: return ht_found("an operation of a thread", op->code);
    }
    if (call.address > w->ids || call.old_address > w->ids)
        return ht_found("an id within ALLOC_PTRS", call.address > w->ids ? call.address : call.old_address);
    return import_sink_call(&import->sink, &call);
}

enum turn { TURN_OVER, WAITS, ENDS, WRONG, NO_MEMORY };

// A thread's turn. *expected: what, where it went wrong.
static enum turn run_turn(struct import *import, struct workload *w, uint32_t number, struct operation *op,
                          const char **expected) {
    struct wl_thread *thread = &w->thread[number];
    for (unsigned n = 0; n < TURN_OPERATIONS; n++) {
        *expected = read_operation(w->bytes, w->count, &thread->at, op);
        if (*expected) return WRONG;
        if (op->code == CODE_NOP) continue;
        if (op->code == CODE_DONE) return ENDS;
        if (op->code != CODE_SYNC_W && op->code != CODE_SYNC_R) {
            *expected = take_call(import, w, number, op);
            if (import->sink.no_memory) return NO_MEMORY;
            if (*expected) return WRONG;
            continue;
        }
        uint64_t sync = op->operand[0];
        if (sync > w->syncs || sync >= w->count) {
            *expected = "a sync within ALLOC_SYNCS";
            return WRONG;
        }
        if (op->code == CODE_SYNC_W) {
            w->written[sync / 8] |= (uint8_t)(1u << sync % 8);
            wake(w, sync);
        } else if (!(w->written[sync / 8] >> sync % 8 & 1)) {
            thread->at = op->offset;  // it will try again, and fail at this offset
            return wait_for(w, number, sync) ? WAITS : NO_MEMORY;
        }
    }
    return TURN_OVER;
}

// Threads wait, and nobody is left to wake them.
static int fail_waiting(const struct workload *w, struct ht_error *error) {
    char expected[96];
    uint64_t first = UINT64_MAX, sync = 0;
    for (size_t i = 0; i < w->waiters.room; i++) {
        if (!map64_has(&w->waiters, i)) continue;
        uint64_t at = w->thread[w->waiters.entry[i].value - 1].at;
        if (at >= first) continue;
        first = at;
        sync = w->waiters.entry[i].key - 1;
    }
    snprintf(expected, sizeof expected,
             "SYNC_W %" PRIu64 " in another thread, found this thread waiting forever", sync);
    return fail(w, first, expected, error);
}

static int run_threads(struct import *import, struct workload *w, struct ht_error *error) {
    for (uint64_t turns = 1; w->first; turns++) {
        struct operation op;
        const char *expected = NULL;
        uint32_t number = w->first - 1;
        w->first = w->thread[number].next;
        if (!w->first) w->last = 0;
        switch (run_turn(import, w, number, &op, &expected)) {
        case TURN_OVER: enqueue(w, number); break;
        case WAITS: break;
        case ENDS: import_sink_thread_ends(&import->sink, number, false, 0); break;
        case WRONG: return fail(w, op.offset, expected, error);
        case NO_MEMORY: return no_memory(w, error);
        }
        if (turns % PROGRESS_TURNS == 0 && !import_goes_on(import)) return 0;
    }
    return w->waiters.count ? fail_waiting(w, error) : 0;
}

// What cannot be passed over is an error under --lenient too: behind it nothing in the stream is sure.
static int take_workload(struct import *import, struct ht_error *error) {
    struct workload w = {.path = import->input.path};
    if (import_input_map(&import->input, &w.bytes, &w.count, error)) return -1;
    w.written = calloc(w.count / 8 + 1, 1);
    int status = w.written && map64_init(&w.waiters) ? read_main(&w, error) : no_memory(&w, error);
    if (!status) status = run_threads(import, &w, error);
    if (w.bytes) munmap((void *)w.bytes, w.count);
    map64_free(&w.waiters);
    free(w.written);
    free(w.thread);
    return status;
}

// A main stream as far as it goes, with a thread in it.
static bool sniff(const char *head, size_t bytes) {
    struct operation op;
    unsigned threads = 0;
    for (uint64_t at = 0; at < bytes;) {
        if (read_operation((const uint8_t *)head, bytes, &at, &op)) return threads > 0 && at >= bytes;
        if (op.code == CODE_DONE) return threads > 0;
        threads += op.code == CODE_START_THREAD;
        if (op.code != CODE_NOP && (op.code < CODE_ALLOC_PTRS || op.code > CODE_START_THREAD)) return false;
    }
    return threads > 0;
}

const struct import_format import_workload = {
    .name = "wl", .title = "glibc malloc workload", .sniff = sniff, .whole = take_workload};
