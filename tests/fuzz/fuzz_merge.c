// SPDX-License-Identifier: Apache-2.0
// The merge: logs that are sound as bytes, but whose calls, stamps and streams are any. An input is a list of
// calls of five bytes each; the first byte says whether a forked child's log follows its parent's.
#include "checked_conversion.h"
#include "fuzz_input.h"
#include "ops.h"
#include "raw_log_builder.h"

enum { STREAMS = 8, CALLS_MAX = 4096, ADDRESSES = 64, PARENT_PID = 7, CHILD_PID = 8 };

struct call {
    uint8_t kind, stream, step, address, size;
};

static uint64_t size_of(uint8_t code) {
    // Small, large, and so large that products and sums go over.
    return code < 128 ? code * 8u : code < 250 ? UINT64_C(1) << (code - 128) % 64 : UINT64_MAX - (255 - code);
}

static unsigned function_of_kind(enum ht_kind kind, uint8_t choice) {
    for (unsigned i = 0; i < HT_CALLS_END; i++) {
        unsigned function = (choice + i) % HT_CALLS_END;
        if (ht_functions[function].name && ht_functions[function].kind == kind) return function;
    }
    return HT_MALLOC;
}

// The modifiers that the call's upper bits ask for. Returns whether the call fails.
static bool put_modifiers(struct ht_cursor *cursor, unsigned op, const struct call *call) {
    bool frees = op == HT_RAW_FREE || op == HT_RAW_FREE_NULL;
    enum ht_kind kind = frees ? HT_KIND_FREE
                        : op == HT_RAW_REALLOC_BEGIN || op == HT_RAW_REALLOC_END || op == HT_RAW_REALLOC_NULL
                            ? HT_KIND_REALLOC
                            : HT_KIND_ALLOC;
    if (call->kind & 16) ht_append_modifier(cursor, HT_MODIFIER_FUNCTION, function_of_kind(kind, call->size));
    if (call->kind & 32) ht_append_modifier(cursor, HT_MODIFIER_COUNT, size_of((uint8_t)(call->size * 3)));
    if (call->kind & 64) ht_append_modifier(cursor, HT_MODIFIER_ALIGNMENT, UINT64_C(1) << call->address % 64);
    if (call->stream & 64) ht_append_modifier(cursor, HT_MODIFIER_RESIDENT_BEFORE, call->size);
    if (call->stream & 128) ht_append_modifier(cursor, HT_MODIFIER_RESIDENT_AFTER, call->address);
    bool fails = call->kind & 128 && !frees && op != HT_RAW_REALLOC_BEGIN;
    if (fails)
        ht_append_modifier(cursor, HT_MODIFIER_FAILED, call->size & 1 ? HT_FAILED_RELEASED : HT_FAILED_NULL);
    return fails;
}

static void put_call(struct raw_log_builder *builder, const struct call *call, uint64_t stamp) {
    unsigned op = 1 + call->kind % 16 % 9, stream = call->stream % STREAMS;
    uint64_t address = 0x10000 + (uint64_t)(call->address % ADDRESSES) * 16;
    struct ht_cursor *cursor = builder_cursor(builder, stream);
    if (call->kind % 16 == 15) {
        builder_count(builder, stream);
        bool same = call->size & 1 && cursor->last_address;
        if (!same || !ht_append_same_query(cursor, cursor->last_address))
            ht_append_bare(cursor, HT_RAW_QUERY, stamp, address);
        return;
    }
    if (op == 9) {
        const uint64_t words[5] = {stamp, call->size & 64 ? address : size_of(call->address), call->size,
                                   stamp, 1};
        unsigned kind = 1 + (unsigned)(call->size % (HT_LONG_RESIDENT_SO_FAR + 2));
        if (kind > HT_LONG_RESIDENT_SO_FAR) kind += HT_LONG_CONTROL - HT_LONG_RESIDENT_SO_FAR - 1;
        ht_append_long(cursor, kind, words, 1 + call->address % 5);
        return;
    }
    bool fails = put_modifiers(cursor, op, call);
    builder_count(builder, stream);
    if (fails || op == HT_RAW_FREE_NULL) ht_append_unaddressed(cursor, op, stamp, size_of(call->size));
    else if (op == HT_RAW_REALLOC_END) ht_append_bare(cursor, op, stamp, address);
    else ht_append_call(cursor, op, stamp, address, size_of(call->size));
}

static void build(struct fuzz_input *input, struct raw_log_builder *builder, const char *path, bool nested,
                  uint64_t *clock) {
    builder_open(builder, path);
    for (unsigned i = 1; i < STREAMS && nested; i += 2) builder->stream[i].outer = i;
    for (unsigned i = 0; i < CALLS_MAX && input->left; i++) {
        struct call call;
        fuzz_take(input, &call, sizeof call);
        if (call.kind == 255) break;
        // Streams are out of step by up to 64 units of 64 ns, and now and then by more.
        *clock += call.step % 32;
        if (call.step == 255) *clock += 10000000;
        put_call(builder, &call, *clock + (call.step / 32) * 1024);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static struct raw_log_builder parent, child;
    struct fuzz_input input = {data, bytes};
    char parent_path[FUZZ_PATH_BYTES], child_path[FUZZ_PATH_BYTES];
    uint64_t clock = 1;
    uint8_t flags = fuzz_take_byte(&input);
    fuzz_memory_file(0, parent_path);
    fuzz_memory_file(1, child_path);
    build(&input, &parent, parent_path, flags & 2, &clock);
    parent.header.pid = PARENT_PID;
    builder_close(&parent);
    checked_conversion(parent_path, NULL, 1 + flags / 16);
    if (!(flags & 1)) return 0;
    uint64_t fork_stamp = clock > 4096 && flags & 4 ? clock - 4096 : clock;
    build(&input, &child, child_path, flags & 2, &clock);
    child.header.pid = CHILD_PID;
    child.header.parent_pid = PARENT_PID;
    child.header.fork_stamp = flags & 8 ? 0 : fork_stamp;
    child.header.first_pair.stamp = fork_stamp;
    builder_close(&child);
    checked_conversion(child_path, parent_path, 1);
    return 0;
}
