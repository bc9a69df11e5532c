// SPDX-License-Identifier: Apache-2.0
// heaptrack's data file, as it was recorded (heaptrack --raw) or with names (by heaptrack_interpret): one letter a line, then numbers
// in hexadecimal digits. What s, i, t and a define is numbered by their lines: from 1, and 0 is none; a from 0.
//
//   v VERSION [FILE_VERSION]   x EXECUTABLE   X COMMAND   I PAGE_BYTES PAGES   c MS
//   raw:         m PATH BIAS [START BYTES]... (m -: no module)    t ADDRESS PARENT    + SIZE t POINTER    - POINTER
//   with names:  s STRING    i ADDRESS s [s [s LINE [s s LINE]...]]    t i PARENT    a SIZE t    + a    - a
//
// From file version 3 on the length of a path or string comes before it. Before 1, files with names have + and - as raw ones do.
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "heaptrack_stacks.h"
#include "import_formats.h"
#include "trace_json.h"

enum {
    SIZED_STRINGS_SINCE = 3,  // file version
    CALLS_SINCE = 0x10300,    // heaptrack's: addresses are those before the return address
    UNNUMBERED_RELEASE = 0x10200,
    TICK_NS = 1000000
};
static const uint64_t TICKS_MAX = UINT64_C(1) << 43;

// A size and a stack that blocks have had.
struct allocation {
    uint64_t size;
    uint32_t site;
    uint32_t last;  // of its live blocks, the one allocated last; 0: none
};

struct heaptrack {
    uint64_t version, file_version;
    enum { ANY_KIND, RAW, NAMED } kind;
    char *executable;
    struct heaptrack_stacks stacks;
    uint64_t time_ns;  // of the next call
    // Files with names know a block by its allocation only.
    struct allocation *allocation;
    size_t allocations, allocations_room;
    uint32_t
        *before;  // by block: of its allocation, the one allocated before it; or the next number that is free
    size_t blocks, blocks_room;
    uint32_t free_block;
};

static const char ANY[] = "heaptrack's v, x, X, I, m, s, i, t, a, +, -, c, R, A, S or #";
static const char EXPECTED_V[] = "v VERSION [FILE_VERSION]";
static const char EXPECTED_STRING[] = "a string, from file version 3 on its length before it";
static const char NO_MEMORY[] = "enough memory";

static bool next_number(struct import_text *line, uint64_t *value) {
    return text_is(line, ' ') && text_hex(line, value);
}

// A path or string: to the line's end, or to the next blank. *text is what it is.
static bool next_string(const struct heaptrack *state, struct import_text *line, bool to_end,
                        struct import_text *text) {
    uint64_t bytes = 0;
    bool sized = state->file_version >= SIZED_STRINGS_SINCE;
    if (sized && !next_number(line, &bytes)) return false;
    if (!text_is(line, ' ')) return false;
    size_t left = (size_t)(line->end - line->at);
    const char *blank = to_end ? NULL : memchr(line->at, ' ', left);
    if (!sized) bytes = blank ? (size_t)(blank - line->at) : left;
    if (bytes > left || (to_end && bytes < left)) return false;
    *text = (struct import_text){line->at, line->at + bytes};
    line->at += bytes;
    return true;
}

static bool is_kind(struct heaptrack *state, unsigned kind) {
    if (!state->kind) state->kind = kind;
    return state->kind == kind;
}

static bool is_by_pointer(const struct heaptrack *state) {
    return state->kind == RAW || !state->file_version;
}

static char *copied(const struct import_text *text) {
    return strndup(text->at, (size_t)(text->end - text->at));
}

static void note(struct import *import, const char *key, const char *value) {
    if (!import->sink.begun && value)
        json_object_set_new(import->sink.context, key, trace_json_string(value));
}

// ---- the head ----

static const char *take_version(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    if (state->version || !next_number(line, &state->version) || !state->version) return EXPECTED_V;
    if (state->version == UNNUMBERED_RELEASE) state->file_version = 1;
    if (!text_ends(line) && (!text_hex(line, &state->file_version) || !text_ends(line))) return EXPECTED_V;
    state->stacks.sites = &import->sites;
    return NULL;
}

static const char *take_executable(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    struct import_text text;
    if (!is_kind(state, RAW) || !next_string(state, line, true, &text))
        return "x and a path, once, in a raw file";
    free(state->executable);
    state->executable = copied(&text);
    note(import, "executable", state->executable);
    return NULL;
}

static const char *take_command(struct import *import, struct import_text *line) {
    text_skip_blanks(line);
    char *command = copied(line);
    note(import, "command", command);
    free(command);
    return NULL;
}

static const char *take_page(struct import *import, struct import_text *line) {
    uint64_t bytes, pages;
    if (!next_number(line, &bytes) || !next_number(line, &pages) || !bytes || bytes > INT32_MAX)
        return "I PAGE_BYTES PAGES";
    if (!import->sink.begun)
        json_object_set_new(import->sink.context, "page_bytes", json_integer((json_int_t)bytes));
    return NULL;
}

static const char *take_tick(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    uint64_t ticks;
    if (!next_number(line, &ticks) || !text_ends(line) || ticks >= TICKS_MAX) return "c MILLISECONDS";
    if (ticks * TICK_NS > state->time_ns) state->time_ns = ticks * TICK_NS;
    return NULL;
}

// ---- stacks ----

static const char *take_module(struct import *import, struct import_text *line) {
    static const char expected[] = "m PATH BIAS [START BYTES]..., or m -, in a raw file";
    struct heaptrack *state = import->state;
    struct import_text path;
    struct heaptrack_segment segment;
    uint64_t start, bytes;
    if (!is_kind(state, RAW) || !next_string(state, line, false, &path)) return expected;
    size_t length = (size_t)(path.end - path.at);
    if (length == 1 && *path.at == '-') {
        heaptrack_stacks_forget_code(&state->stacks);
        return text_ends(line) ? NULL : expected;
    }
    if (!next_number(line, &segment.bias)) return expected;
    if (length == 1 && *path.at == 'x' && state->executable)
        path = (struct import_text){state->executable, state->executable + strlen(state->executable)};
    segment.module = import_sites_module(&import->sites, path.at, (size_t)(path.end - path.at));
    while (!text_ends(line)) {
        if (!text_hex(line, &start) || !next_number(line, &bytes)) return expected;
        segment.start = segment.bias + start;
        segment.end = segment.start + bytes;
        heaptrack_stacks_add_code(&state->stacks, segment);
    }
    return NULL;
}

static const char *take_string(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    struct import_text text;
    if (!is_kind(state, NAMED) || !next_string(state, line, true, &text)) return EXPECTED_STRING;
    heaptrack_stacks_add_string(&state->stacks, text.at, (size_t)(text.end - text.at));
    return NULL;
}

// Heaptrack means the call; a trace has return addresses, which lie behind it.
static uint64_t return_address(const struct heaptrack *state, uint64_t address) {
    return address + (state->version >= CALLS_SINCE);
}

static const char *take_address(struct import *import, struct import_text *line) {
    static const char expected[] =
        "i ADDRESS MODULE [FUNCTION [FILE LINE]...] of known strings, in a file with names";
    struct heaptrack *state = import->state;
    struct heaptrack_function function[HEAPTRACK_INLINED_MAX];
    uint64_t address, module;
    size_t functions = 0;
    if (!is_kind(state, NAMED) || !next_number(line, &address) || !next_number(line, &module))
        return expected;
    while (!text_ends(line) && functions < HEAPTRACK_INLINED_MAX) {
        struct heaptrack_function *next = &function[functions++];
        *next = (struct heaptrack_function){0};
        if (!text_hex(line, &next->name)) return expected;
        if (functions == 1 && text_ends(line)) break;
        text_skip_blanks(line);
        if (!text_hex(line, &next->file) || !next_number(line, &next->line)) return expected;
    }
    // What is inlined deeper than that is left out.
    return heaptrack_stacks_add_address(&state->stacks, return_address(state, address), module, function,
                                        functions)
               ? NULL
               : expected;
}

static const char *take_frame(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    uint64_t place, parent;
    bool taken = next_number(line, &place) && next_number(line, &parent) && text_ends(line);
    if (taken && state->kind == NAMED) taken = heaptrack_stacks_add_frame(&state->stacks, place, parent);
    else if (taken)
        taken = heaptrack_stacks_add_frame_at(&state->stacks, return_address(state, place), parent);
    return taken ? NULL : "t ADDRESS PARENT, with a parent from an earlier line";
}

// ---- calls ----

static const char *take_call(struct import *import, const struct import_call *call) {
    struct heaptrack *state = import->state;
    struct import_call timed = *call;
    timed.timed = true;
    timed.time_ns = state->time_ns;
    const char *expected = import_sink_call(&import->sink, &timed);
    if (!expected) state->time_ns += import->sink.time_unit_ns;
    return expected;
}

static const char *take_allocation(struct import *import, struct import_text *line) {
    static const char expected[] = "a SIZE STACK, with a stack from an earlier line, in a file with names";
    struct heaptrack *state = import->state;
    struct allocation made = {0};
    uint64_t frame;
    if (!is_kind(state, NAMED) || !next_number(line, &made.size) || !next_number(line, &frame) ||
        !text_ends(line) || !heaptrack_stacks_site(&state->stacks, frame, &made.site))
        return expected;
    if (!ht_grow(&state->allocation, &state->allocations_room, state->allocations + 1, sizeof made))
        return NO_MEMORY;
    if (!is_by_pointer(state)) note(import, "frees", "assumed");
    state->allocation[state->allocations++] = made;
    return NULL;
}

static const char *take_malloc_of_pointer(struct import *import, struct import_text *line) {
    static const char expected[] = "+ SIZE STACK POINTER, with a stack from an earlier line";
    struct heaptrack *state = import->state;
    struct import_call call = {.function = HT_MALLOC};
    uint64_t frame;
    if (!next_number(line, &call.size) || !next_number(line, &frame) || !next_number(line, &call.address) ||
        !text_ends(line) || !call.address || !heaptrack_stacks_site(&state->stacks, frame, &call.site))
        return expected;
    return take_call(import, &call);
}

static const char *take_malloc_of_allocation(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    uint64_t number;
    if (!next_number(line, &number) || !text_ends(line) || number >= state->allocations)
        return "+ ALLOCATION, with an allocation (a) from an earlier line";
    struct allocation *allocation = &state->allocation[number];
    uint32_t block = state->free_block ? state->free_block : (uint32_t)state->blocks + 1;
    if (state->blocks == UINT32_MAX - 1 ||
        !ht_grow(&state->before, &state->blocks_room, (size_t)block + 1, sizeof *state->before))
        return NO_MEMORY;
    const char *expected = take_call(import, &(struct import_call){.function = HT_MALLOC,
                                                                   .address = block,
                                                                   .size = allocation->size,
                                                                   .site = allocation->site});
    if (expected) return expected;
    if (block == state->free_block) state->free_block = state->before[block];
    else state->blocks++;
    state->before[block] = allocation->last;
    allocation->last = block;
    return NULL;
}

static const char *take_free_of_pointer(struct import *import, struct import_text *line) {
    struct import_call call = {.function = HT_FREE};
    if (!next_number(line, &call.address) || !text_ends(line) || !call.address) return "- POINTER";
    return take_call(import, &call);
}

// Which of the allocation's live blocks it is, the file does not say.
static const char *take_free_of_allocation(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    uint64_t number;
    if (!next_number(line, &number) || !text_ends(line) || number >= state->allocations ||
        !state->allocation[number].last)
        return "- ALLOCATION, of which a block lives";
    uint32_t block = state->allocation[number].last;
    const char *expected = take_call(import, &(struct import_call){.function = HT_FREE, .address = block});
    if (expected) return expected;
    state->allocation[number].last = state->before[block];
    state->before[block] = state->free_block;
    state->free_block = block;
    return NULL;
}

// ---- the lines ----

static const char *take_known(struct import *import, char letter, struct import_text *line) {
    bool by_pointer = is_by_pointer(import->state);
    switch (letter) {
    case 'v': return take_version(import, line);
    case 'x': return take_executable(import, line);
    case 'X': return take_command(import, line);
    case 'I': return take_page(import, line);
    case 'c': return take_tick(import, line);
    case 'm': return take_module(import, line);
    case 's': return take_string(import, line);
    case 'i': return take_address(import, line);
    case 't': return take_frame(import, line);
    case 'a': return take_allocation(import, line);
    case '+':
        return by_pointer ? take_malloc_of_pointer(import, line) : take_malloc_of_allocation(import, line);
    case '-': return by_pointer ? take_free_of_pointer(import, line) : take_free_of_allocation(import, line);
    case 'R':
    case 'A':
    case 'S':
    case '#': return NULL;
    default: return ANY;
    }
}

// A line that is passed over has its number all the same.
static void keep_number(struct import *import, char letter) {
    struct heaptrack *state = import->state;
    struct heaptrack_stacks *stacks = &state->stacks;
    if (!state->version) return;
    if (letter == 's') heaptrack_stacks_add_string(stacks, "", 0);
    if (letter == 'i') heaptrack_stacks_add_address(stacks, 0, 0, NULL, 0);
    if (letter == 't') heaptrack_stacks_add_frame(stacks, 0, 0);
    if (letter == 'a' && ht_grow(&state->allocation, &state->allocations_room, state->allocations + 1,
                                 sizeof *state->allocation))
        state->allocation[state->allocations++] = (struct allocation){0};
    import->sink.no_memory |= stacks->no_memory;
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct heaptrack *state = import->state;
    char letter = *line->at++;
    if (!state->version && letter != 'v') return EXPECTED_V;
    const char *expected = take_known(import, letter, line);
    import->sink.no_memory |= state->stacks.no_memory || expected == NO_MEMORY;
    if (expected && import->lenient) keep_number(import, letter);
    return expected;
}

static void release(void *given) {
    struct heaptrack *state = given;
    heaptrack_stacks_free(&state->stacks);
    free(state->executable);
    free(state->allocation);
    free(state->before);
}

static bool sniff(const char *head, size_t bytes) {
    struct import_text line;
    uint64_t version, file_version;
    return import_first_line(head, bytes, &line) && text_is(&line, 'v') && next_number(&line, &version) &&
           (text_ends(&line) || (text_hex(&line, &file_version) && text_ends(&line)));
}

const struct import_format import_heaptrack = {.name = "heaptrack",
                                               .title = "heaptrack",
                                               .sniff = sniff,
                                               .state_bytes = sizeof(struct heaptrack),
                                               .time = "ticks",
                                               .has_sites = true,
                                               .line = take_line,
                                               .pass = keep_number,
                                               .release = release};
