// SPDX-License-Identifier: Apache-2.0
// Mozilla's logalloc text, raw or munged: PID TID FUNCTION(ARGUMENTS)=RESULT. One file may hold the calls of
// several processes, which share no heap: one of them becomes the trace.
#include <stdio.h>
#include <string.h>

#include "import_formats.h"
#include "talk.h"

enum { PIDS_MAX = 64 };

struct logalloc {
    struct {
        uint64_t pid, calls;
    } process[PIDS_MAX];
    unsigned processes;
    bool more;  // than are distinguished
    unsigned last;
};

enum arguments { NONE, SIZE, COUNT_SIZE, OLD_SIZE, POINTER };

struct logalloc_call {
    const char *word;
    enum ht_function function;  // 0: a mark, no call
    enum arguments arguments;
    const char *expected;
};

static const struct logalloc_call calls[] = {
    {"malloc(", HT_MALLOC, SIZE, "PID TID malloc(SIZE)=PTR"},
    {"free(", HT_FREE, POINTER, "PID TID free(PTR)"},
    {"realloc(", HT_REALLOC, OLD_SIZE, "PID TID realloc(OLD,SIZE)=PTR"},
    {"calloc(", HT_CALLOC, COUNT_SIZE, "PID TID calloc(COUNT,SIZE)=PTR"},
    {"posix_memalign(", HT_POSIX_MEMALIGN, COUNT_SIZE, "PID TID posix_memalign(ALIGNMENT,SIZE)=PTR"},
    {"aligned_alloc(", HT_ALIGNED_ALLOC, COUNT_SIZE, "PID TID aligned_alloc(ALIGNMENT,SIZE)=PTR"},
    {"memalign(", HT_MEMALIGN, COUNT_SIZE, "PID TID memalign(ALIGNMENT,SIZE)=PTR"},
    {"valloc(", HT_VALLOC, SIZE, "PID TID valloc(SIZE)=PTR"},
    {"jemalloc_stats(", 0, NONE, "PID TID jemalloc_stats()"},
};

static const char ANY[] = "PID TID and malloc(, calloc(, realloc(, free(, memalign(, posix_memalign(, "
                          "aligned_alloc(, valloc( or jemalloc_stats(";

// An address, or the number that munging gave in its place.
static bool read_pointer(struct import_text *line, uint64_t *value) {
    if (*line->at == '#') return text_is(line, '#') && text_decimal(line, value);
    return text_pointer(line, value);
}

static bool read_arguments(struct import_text *line, enum arguments arguments, struct import_call *call) {
    switch (arguments) {
    case NONE: return true;
    case SIZE: return text_number(line, &call->size);
    case COUNT_SIZE:
        return text_number(line, &call->extra) && text_is(line, ',') && text_number(line, &call->size);
    case OLD_SIZE:
        return read_pointer(line, &call->old_address) && text_is(line, ',') && text_number(line, &call->size);
    case POINTER: return read_pointer(line, &call->address);
    }
    return false;
}

static const struct logalloc_call *read_name(struct import_text *line) {
    const char *start = line->at;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (text_word(line, calls[i].word)) return &calls[i];
        line->at = start;
    }
    return NULL;
}

static void count(struct logalloc *state, uint64_t pid) {
    unsigned i = state->last;
    if (i >= state->processes || state->process[i].pid != pid)
        for (i = 0; i < state->processes && state->process[i].pid != pid; i++) {
        }
    if (i == PIDS_MAX) {
        state->more = true;
        return;
    }
    if (i == state->processes) {
        state->process[i].pid = pid;
        state->processes++;
    }
    state->process[i].calls++;
    state->last = i;
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct logalloc *state = import->state;
    struct import_call call = {0};
    uint64_t pid;
    if (!text_decimal(line, &pid) || !text_is(line, ' ') || !text_decimal(line, &call.thread) ||
        !text_is(line, ' '))
        return ANY;
    const struct logalloc_call *name = read_name(line);
    if (!name) return ANY;
    call.function = name->function;
    if (!read_arguments(line, name->arguments, &call) || !text_is(line, ')')) return name->expected;
    bool result = name->function && name->function != HT_FREE;
    if (result && (!text_is(line, '=') || !read_pointer(line, &call.address))) return name->expected;
    if (!text_ends(line)) return name->expected;
    if (!call.function) return NULL;
    count(state, pid);
    // Without --pid the first process is followed; a second one makes the whole an error in the end.
    if (pid != (import->pid_wanted ? import->pid : state->process[0].pid)) return NULL;
    return import_sink_call(&import->sink, &call);
}

// The processes by number of calls, the largest first, as many as fit.
static void describe(struct logalloc *state, char *text, size_t room) {
    char number[HT_NUMBER_OF_BYTES];
    size_t used = 0;
    for (unsigned n = 0; n < state->processes && room - used > 60; n++) {
        unsigned most = 0;
        for (unsigned i = 1; i < state->processes; i++)
            if (state->process[i].calls > state->process[most].calls) most = i;
        used += (size_t)snprintf(text + used, room - used, "%s%llu (%s)", n ? ", " : "",
                                 (unsigned long long)state->process[most].pid,
                                 ht_number_of(number, state->process[most].calls, "call"));
        state->process[most].calls = 0;
    }
    if (state->more) snprintf(text + used, room - used, " and more");
}

static int check_processes(struct import *import, struct ht_error *error) {
    struct logalloc *state = import->state;
    char text[200] = "none";
    bool taken = import->sink.begun;
    if (import->pid_wanted ? taken : state->processes <= 1) return 0;
    describe(state, text, sizeof text);
    if (import->pid_wanted)
        return ht_error_input(error, import->input.path, 0,
                              "expected calls of process %llu, found those of %s",
                              (unsigned long long)import->pid, text);
    return ht_error_input(error, import->input.path, 0,
                          "expected the calls of one process, found those of %s: choose by --pid", text);
}

static bool sniff(const char *head, size_t bytes) {
    struct import_text line;
    uint64_t number;
    return import_first_line(head, bytes, &line) && text_decimal(&line, &number) && text_is(&line, ' ') &&
           text_decimal(&line, &number) && text_is(&line, ' ') && read_name(&line);
}

const struct import_format import_logalloc = {.name = "logalloc",
                                              .title = "Mozilla logalloc",
                                              .sniff = sniff,
                                              .state_bytes = sizeof(struct logalloc),
                                              .has_pids = true,
                                              .line = take_line,
                                              .end = check_processes};
