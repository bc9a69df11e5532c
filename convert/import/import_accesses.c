// SPDX-License-Identifier: Apache-2.0
// The calls in an accesses file (heaptape record --accesses); the accesses between them are passed over.
#include <stdio.h>
#include <string.h>

#include "access_reader.h"
#include "import_formats.h"
#include "trace_json.h"

enum { CALLS_AT_ONCE = 4096, STEP_INSTRUCTIONS = 10, STEP_NS = 3 };  // 0.3 ns an instruction

struct accesses {
    struct ht_access_reader reader;
    uint64_t instructions;
    uint32_t pid;
};

static size_t read_input(void *source, uint8_t *room, size_t count) {
    struct import_input *input = source;
    size_t there = import_input_peek(input, 1);
    if (there > count) there = count;
    memcpy(room, input->buffer + input->begin, there);
    import_input_consume(input, there);
    return there;
}

static int read_header(struct import *import, struct ht_error *error) {
    struct import_input *input = &import->input;
    struct accesses *state = import->state;
    uint32_t numbers[4];  // version, least version of a reader, process, bytes of the command
    uint64_t offset;
    size_t bytes = import_input_peek(input, HT_ACCESS_HEADER_BYTES);
    const uint8_t *head = (const uint8_t *)input->buffer + input->begin;
    const char *wrong = ht_access_header_wrong(head, bytes, &offset);
    if (wrong) return ht_error_input(error, input->path, offset, "%s", wrong);
    memcpy(numbers, head + HT_ACCESS_MAGIC_BYTES, sizeof numbers);
    if (numbers[1] > HT_ACCESS_VERSION_SAMPLED)
        return ht_error_input(error, input->path, HT_ACCESS_MAGIC_BYTES + 4, "%s",
                              ht_found("expected accesses of version 1 or 2", numbers[1]));
    if (numbers[3] > IMPORT_HEAD_BYTES)
        return ht_error_input(error, input->path, HT_ACCESS_MAGIC_BYTES + 12, "%s",
                              ht_found("expected a command of at most 64 KiB", numbers[3]));
    import_input_consume(input, HT_ACCESS_HEADER_BYTES);
    if (import_input_peek(input, numbers[3]) < numbers[3])
        return ht_error_input(error, input->path, HT_ACCESS_HEADER_BYTES,
                              "expected a command of %u bytes, found %zu", numbers[3],
                              input->end - input->begin);
    json_t *context = import->sink.context;
    char command[IMPORT_HEAD_BYTES + 1];
    memcpy(command, input->buffer + input->begin, numbers[3]);
    command[numbers[3]] = 0;
    json_object_set_new(context, "command", trace_json_string(command));
    state->reader.sampled = numbers[1] == HT_ACCESS_VERSION_SAMPLED;
    state->pid = numbers[2];
    json_object_set_new(context, "pid", json_integer(state->pid));
    import_input_consume(input, numbers[3]);
    return 0;
}

// A block's slot takes the place of its address. Threads have the simulation's numbers, from 1; the first is the
// process's initial one, which allocators treat as something special, and has its id.
static struct import_call import_of(const struct accesses *state, const struct ht_recorded_call *recorded,
                                    uint64_t time_ns) {
    static const enum ht_function functions[HT_ACCESS_CALLS] = {
        [HT_ACCESS_MALLOC] = HT_MALLOC, [HT_ACCESS_CALLOC] = HT_CALLOC,    [HT_ACCESS_REALLOC] = HT_REALLOC,
        [HT_ACCESS_FREE] = HT_FREE,     [HT_ACCESS_ALIGNED] = HT_MEMALIGN, [HT_ACCESS_FREE_NULL] = HT_FREE};
    uint32_t thread = state->pid + (recorded->thread ? recorded->thread - 1 : 0);
    uint64_t id = recorded->call == HT_ACCESS_FREE_NULL ? 0 : (uint64_t)recorded->slot + 1;
    return (struct import_call){.function = functions[recorded->call],
                                .thread = thread,
                                .address = id,
                                .old_address =
                                    recorded->call == HT_ACCESS_REALLOC && !recorded->from_null ? id : 0,
                                .size = recorded->size,
                                .extra = recorded->count,
                                .timed = true,
                                .time_ns = time_ns};
}

static int reject(struct import *import, const struct ht_access *access, const char *expected,
                  struct ht_error *error) {
    return ht_error_input(error, import->input.path, access->offset, "expected %s", expected);
}

static int take_whole(struct import *import, struct ht_error *error) {
    struct accesses *state = import->state;
    struct ht_access access;
    if (read_header(import, error)) return -1;
    state->reader.read = read_input;
    state->reader.source = &import->input;
    state->reader.offset = import->input.offset;
    for (uint64_t calls = 0;;) {
        switch (ht_read_access(&state->reader, &access)) {
        case HT_ACCESS_CALL: {
            state->instructions += access.call.instructions;
            struct import_call call =
                import_of(state, &access.call, state->instructions / STEP_INSTRUCTIONS * STEP_NS);
            const char *expected = import_sink_call(&import->sink, &call);
            if (expected) return reject(import, &access, expected, error);
            if (++calls % CALLS_AT_ONCE == 0 && !import_goes_on(import)) return 0;
            break;
        }
        case HT_ACCESS_END: return 0;
        case HT_ACCESS_CUT:
            return reject(import, &access, "the end of the accesses, found the file cut short", error);
        case HT_ACCESS_DAMAGED:
            return reject(import, &access, ht_found(access.expected, access.found), error);
        default: break;
        }
    }
}

static bool sniff(const char *head, size_t bytes) {
    return bytes >= HT_ACCESS_MAGIC_BYTES && !memcmp(head, HT_ACCESS_MAGIC, HT_ACCESS_MAGIC_BYTES);
}

const struct import_format import_accesses = {.name = "acc",
                                              .title = "heaptape record --accesses",
                                              .sniff = sniff,
                                              .state_bytes = sizeof(struct accesses),
                                              .whole = take_whole};
