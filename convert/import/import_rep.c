// SPDX-License-Identifier: Apache-2.0
// The .rep traces of the malloc lab of CS:APP: four numbers, then one call a line, objects by id.
#include "import_formats.h"

enum { HEADER_NUMBERS = 4 };

struct rep {
    unsigned header_read;
    uint64_t header[HEADER_NUMBERS];  // suggested heap, ids, operations, weight
    uint64_t operations;
};

static const char EXPECTED[] = "a ID SIZE, r ID SIZE or f ID";

static const char *read_header(struct rep *state, struct import_text *line) {
    text_skip_blanks(line);
    do {
        if (state->header_read == HEADER_NUMBERS || !text_decimal(line, &state->header[state->header_read]))
            return "four numbers: suggested heap, ids, operations, weight";
        state->header_read++;
    } while (!text_ends(line));
    return NULL;
}

// The id plus one, because 0 is NULL.
static bool read_operation(struct import_text *line, struct import_call *call, uint64_t ids) {
    char letter = *line->at;
    uint64_t id;
    if (letter != 'a' && letter != 'r' && letter != 'f') return false;
    line->at++;
    call->function = letter == 'a' ? HT_MALLOC : letter == 'r' ? HT_REALLOC : HT_FREE;
    if (!text_is(line, ' ')) return false;
    if (letter == 'f' && *line->at == '-') return text_word(line, "-1") && text_ends(line);  // free(NULL)
    if (!text_decimal(line, &id) || id >= ids) return false;
    call->address = id + 1;
    if (letter != 'f' && (!text_is(line, ' ') || !text_decimal(line, &call->size))) return false;
    return text_ends(line);
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct rep *state = import->state;
    struct import_call call = {0};
    if (state->header_read < HEADER_NUMBERS) return read_header(state, line);
    if (!read_operation(line, &call, state->header[1])) return EXPECTED;
    // An id that holds nothing holds NULL.
    size_t place = heap_model_find(&import->sink.heap, call.address);
    if (call.function == HT_REALLOC && heap_model_slot_at(&import->sink.heap, place))
        call.old_address = call.address;
    const char *expected = import_sink_call(&import->sink, &call);
    state->operations += !expected;
    return expected;
}

static int check_operations(struct import *import, struct ht_error *error) {
    const struct rep *state = import->state;
    if (import->lenient || state->operations == state->header[2]) return 0;
    return ht_error_input(error, import->input.path, import->input.offset,
                          "expected %llu operations, as the header says, found %llu",
                          (unsigned long long)state->header[2], (unsigned long long)state->operations);
}

static bool sniff(const char *head, size_t bytes) {
    struct rep state = {0};
    struct import_text line;
    struct import_call call = {0};
    while (import_first_line(head, bytes, &line)) {
        size_t used = (size_t)(line.end - head);
        if (state.header_read == HEADER_NUMBERS) return read_operation(&line, &call, UINT64_MAX);
        if (read_header(&state, &line)) return false;
        head += used;
        bytes -= used;
    }
    return false;
}

const struct import_format import_rep = {.name = "rep",
                                         .title = "CS:APP malloc lab",
                                         .sniff = sniff,
                                         .state_bytes = sizeof(struct rep),
                                         .line = take_line,
                                         .end = check_operations};
