// SPDX-License-Identifier: Apache-2.0
#include "import_sink.h"

#include <assert.h>
#include <stdlib.h>

#include "trace_json.h"

// More than any address space holds: what claims to be larger is damaged. Live blocks together stay below the
// second bound, so that sums cannot wrap around.
static const uint64_t BLOCK_BYTES_MAX = UINT64_C(1) << 56, LIVE_BYTES_MAX = UINT64_C(1) << 62;
static const uint64_t TIME_NS_MAX = UINT64_C(9000000000000000000);

static const char NO_MEMORY[] = "memory for the heap";

bool import_sink_init(struct import_sink *sink, struct ht_trace_writer *writer, uint32_t time_unit_ns,
                      json_t *context) {
    *sink = (struct import_sink){.writer = writer, .time_unit_ns = time_unit_ns, .context = context};
    return heap_model_init(&sink->heap, writer) && map64_init(&sink->threads);
}

void import_sink_free(struct import_sink *sink) {
    heap_model_free(&sink->heap);
    map64_free(&sink->threads);
}

static const char *no_memory(struct import_sink *sink) {
    sink->no_memory = true;
    return NO_MEMORY;
}

// The first call decides whether the file has times; the context, before all events, records that.
static void begin(struct import_sink *sink, const struct import_call *call) {
    sink->begun = true;
    sink->timed = call->timed;
    sink->first_ns = call->time_ns;
    const char *time = call->timed ? "recorded" : "nominal";
    json_object_set_new(sink->context, "time", json_string(sink->time ? sink->time : time));
    trace_json_put_context(sink->writer, json_incref(sink->context));
}

static uint64_t time_of(const struct import_sink *sink, uint64_t time_ns) {
    uint64_t since = time_ns > sink->first_ns ? time_ns - sink->first_ns : 0;
    return since < TIME_NS_MAX ? since : TIME_NS_MAX;
}

// Our number of the thread, which may be new; UINT32_MAX for want of memory.
static uint32_t thread_of(struct import_sink *sink, uint64_t thread, uint64_t time_ns) {
    if (sink->thread_named == thread + 1) return sink->thread_found;
    size_t place = map64_find(&sink->threads, thread + 1);
    uint32_t number;
    if (map64_has(&sink->threads, place)) {
        number = (uint32_t)sink->threads.entry[place].value;
    } else {
        number = heap_model_add_thread(&sink->heap, (uint32_t)thread, time_ns);
        if (number == UINT32_MAX || !map64_put(&sink->threads, thread + 1, number)) return UINT32_MAX;
    }
    sink->thread_named = thread + 1;
    sink->thread_found = number;
    return number;
}

// A call on its way into the trace.
struct incoming {
    const struct import_call *call;
    uint32_t thread;
    uint64_t time_ns;
    uint64_t bytes;  // what it allocates
};

static void emit(struct import_sink *sink, const struct incoming *in, enum ht_variant variant,
                 uint32_t slot) {
    if (in->call->site) ht_trace_put_site(sink->writer, in->call->site);
    heap_model_event(&sink->heap, ht_op(in->call->function, variant), in->thread, in->time_ns, slot,
                     in->call->size, in->call->extra);
}

// The old block's residency, where it is large and its end has it.
static void end_residency(struct import_sink *sink, const struct import_call *call, uint32_t slot) {
    uint64_t bytes = sink->heap.slots.state[slot].size, resident = call->resident_bytes;
    if (bytes < HT_LARGE_BLOCK_BYTES) return;
    if (!call->resident_given) {
        heap_model_drop_birth(&sink->heap, slot);
        return;
    }
    // As in a trace, no more than one above the pages that its size takes: where it began the file does not say.
    uint64_t pages_max = bytes / IMPORT_PAGE_BYTES + (bytes % IMPORT_PAGE_BYTES != 0) + 1;
    uint64_t pages = resident / IMPORT_PAGE_BYTES + (resident % IMPORT_PAGE_BYTES != 0);
    if (pages > pages_max) pages = pages_max;
    heap_model_put_residency(&sink->heap, slot, pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX);
}

static bool begin_residency(struct import_sink *sink, const struct incoming *in, uint32_t slot) {
    return in->bytes < HT_LARGE_BLOCK_BYTES || heap_model_note_birth(&sink->heap, slot, 0, 0, 0);
}

// A new object at the address; an object still there is dropped.
static const char *make(struct import_sink *sink, const struct incoming *in, enum ht_variant variant) {
    size_t place = heap_model_find(&sink->heap, in->call->address);
    if (heap_model_slot_at(&sink->heap, place)) heap_model_drop(&sink->heap, place, in->thread, in->time_ns);
    uint32_t slot = heap_model_make(&sink->heap, in->call->address, in->bytes, in->thread);
    if (!slot || !begin_residency(sink, in, slot)) return no_memory(sink);
    emit(sink, in, variant, slot);
    return NULL;
}

static const char *take_free(struct import_sink *sink, const struct incoming *in) {
    struct heap_model *heap = &sink->heap;
    if (!in->call->address) {
        emit(sink, in, HT_NULL, 0);
        return NULL;
    }
    size_t place = heap_model_find(heap, in->call->address);
    uint32_t slot = heap_model_slot_at(heap, place);
    if (!slot) {
        heap->totals.foreign_frees++;
        emit(sink, in, HT_FOREIGN, 0);
        return NULL;
    }
    end_residency(sink, in->call, slot);
    heap_model_forget_at(heap, place);
    emit(sink, in, HT_PLAIN, slot);
    heap_model_end(heap, slot, in->thread);
    return NULL;
}

// realloc(p, 0) that returned NULL freed the block; any other NULL left it as it was.
static const char *take_failed_realloc(struct import_sink *sink, const struct incoming *in) {
    size_t place = heap_model_find(&sink->heap, in->call->old_address);
    uint32_t slot = in->call->old_address ? heap_model_slot_at(&sink->heap, place) : 0;
    if (!slot || in->bytes || in->call->failed) {
        emit(sink, in, HT_FAILED, 0);
        return NULL;
    }
    end_residency(sink, in->call, slot);
    heap_model_forget_at(&sink->heap, place);
    emit(sink, in, HT_RELEASED, slot);
    heap_model_end(&sink->heap, slot, in->thread);
    return NULL;
}

static const char *take_realloc(struct import_sink *sink, const struct incoming *in) {
    struct heap_model *heap = &sink->heap;
    if (in->call->failed || !in->call->address) return take_failed_realloc(sink, in);
    if (!in->call->old_address) return make(sink, in, HT_NULL);
    size_t place = heap_model_find(heap, in->call->old_address);
    uint32_t slot = heap_model_slot_at(heap, place);
    if (!slot) {
        heap->totals.foreign_frees++;
        return make(sink, in, HT_FOREIGN);
    }
    end_residency(sink, in->call, slot);
    heap_model_forget_at(heap, place);
    place = heap_model_find(heap, in->call->address);
    if (heap_model_slot_at(heap, place)) heap_model_drop(heap, place, in->thread, in->time_ns);
    if (!heap_model_place(heap, in->call->address, slot, in->bytes) || !begin_residency(sink, in, slot))
        return no_memory(sink);
    emit(sink, in, HT_PLAIN, slot);
    return NULL;
}

static const char *take(struct import_sink *sink, const struct incoming *in) {
    switch (ht_functions[in->call->function].kind) {
    case HT_KIND_FREE: return take_free(sink, in);
    case HT_KIND_REALLOC: return take_realloc(sink, in);
    default: break;
    }
    if (!in->call->failed && in->call->address) return make(sink, in, HT_PLAIN);
    emit(sink, in, HT_FAILED, 0);
    return NULL;
}

// Is the call one that a program can have made? Sets its bytes.
static const char *check(const struct import_sink *sink, struct incoming *in) {
    const struct import_call *call = in->call;
    bool counted = call->function == HT_CALLOC || call->function == HT_REALLOCARRAY;
    bool wraps = __builtin_mul_overflow(call->size, counted ? call->extra : 1, &in->bytes);
    bool succeeded = !call->failed && call->address != 0;
    if (ht_functions[call->function].kind != HT_KIND_FREE && succeeded &&
        (wraps || in->bytes > BLOCK_BYTES_MAX || sink->heap.live_bytes > LIVE_BYTES_MAX))
        return "a size that fits into memory";
    // A product that wraps around is not 0, which would have freed the block.
    if (wraps) in->bytes = UINT64_MAX;
    if (call->thread > UINT32_MAX) return "a thread below 4,294,967,296";
    if (sink->heap.threads_count == HT_THREADS_MAX &&
        !map64_has(&sink->threads, map64_find(&sink->threads, call->thread + 1)))
        return "fewer than 16,777,217 threads";
    if (sink->begun && call->timed != sink->timed)
        return sink->timed ? "times, as on the lines before" : "no times, as on the lines before";
    return NULL;
}

const char *import_sink_call(struct import_sink *sink, const struct import_call *call) {
    struct incoming in = {.call = call};
    assert(ht_functions[call->function].name && !ht_functions[call->function].pseudo);
    const char *expected = check(sink, &in);
    if (expected) return expected;
    if (!sink->begun) begin(sink, call);
    in.time_ns = sink->timed ? time_of(sink, call->time_ns) : sink->nominal_ns;
    in.thread = thread_of(sink, call->thread, in.time_ns);
    if (in.thread == UINT32_MAX || sink->no_memory) return no_memory(sink);
    sink->nominal_ns += sink->time_unit_ns;
    return take(sink, &in);
}

void import_sink_thread_ends(struct import_sink *sink, uint64_t thread, bool timed, uint64_t time_ns) {
    size_t place = map64_find(&sink->threads, thread + 1);
    if (!map64_has(&sink->threads, place)) return;  // it never made a call
    uint32_t number = (uint32_t)sink->threads.entry[place].value;
    struct ht_thread *ended = &sink->heap.threads[number];
    ended->ended = true;
    if (timed && sink->timed && time_of(sink, time_ns) > ended->end_ns)
        ended->end_ns = time_of(sink, time_ns);
    slots_thread_ended(&sink->heap.slots, number);
    map64_remove_at(&sink->threads, place);
    sink->thread_named = 0;
}
