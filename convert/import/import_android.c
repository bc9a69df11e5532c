// SPDX-License-Identifier: Apache-2.0
// Android's memory_replay text, as malloc_debug's record_allocs writes it: one call a line, with thread, and
// in newer files with times and with the resident bytes of blocks that end.
#include "import_formats.h"

struct android_call {
    const char *word;
    enum ht_function function;  // 0: the thread ends
    const char *expected;
};

static const struct android_call calls[] = {
    {"malloc ", HT_MALLOC, "TID: malloc PTR SIZE [START_NS END_NS]"},
    {"free ", HT_FREE, "TID: free PTR [START_NS END_NS [RESIDENT]]"},
    {"realloc ", HT_REALLOC, "TID: realloc NEW OLD SIZE [START_NS END_NS [RESIDENT]]"},
    {"calloc ", HT_CALLOC, "TID: calloc PTR COUNT SIZE [START_NS END_NS]"},
    {"memalign ", HT_MEMALIGN, "TID: memalign PTR ALIGNMENT SIZE [START_NS END_NS]"},
    {"thread_done ", 0, "TID: thread_done 0x0 [END_NS]"},
};

static const char ANY[] = "TID: and malloc, calloc, memalign, realloc, free or thread_done";

// What follows the pointer, up to the times.
static bool read_operands(struct import_text *line, struct import_call *call) {
    switch (call->function) {
    case HT_FREE: return true;
    case HT_CALLOC:
    case HT_MEMALIGN:
        if (!text_is(line, ' ') || !text_decimal(line, &call->extra)) return false;
        break;
    case HT_REALLOC:
        if (!text_is(line, ' ') || !text_pointer(line, &call->old_address)) return false;
        break;
    default: break;
    }
    return text_is(line, ' ') && text_decimal(line, &call->size);
}

static bool read_times(struct import_text *line, struct import_call *call) {
    uint64_t start_ns, end_ns;
    if (text_ends(line)) return true;
    if (!text_decimal(line, &start_ns) || !text_is(line, ' ') || !text_decimal(line, &end_ns)) return false;
    call->timed = true;
    call->time_ns = call->function == HT_FREE ? start_ns : end_ns;
    if (text_ends(line)) return true;
    call->resident_given = call->function == HT_FREE || call->function == HT_REALLOC;
    return call->resident_given && text_decimal(line, &call->resident_bytes) && text_ends(line);
}

static const char *end_thread(struct import *import, struct import_text *line, uint64_t thread,
                              const char *expected) {
    uint64_t end_ns = 0;
    bool timed = !text_ends(line);
    if (timed && (!text_decimal(line, &end_ns) || !text_ends(line))) return expected;
    import_sink_thread_ends(&import->sink, thread, timed, end_ns);
    return NULL;
}

static const struct android_call *read_name(struct import_text *line) {
    const char *start = line->at;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (text_word(line, calls[i].word)) return &calls[i];
        line->at = start;
    }
    return NULL;
}

static const char *take_line(struct import *import, struct import_text *line) {
    struct import_call call = {0};
    if (!text_decimal(line, &call.thread) || !text_word(line, ": ")) return ANY;
    const struct android_call *name = read_name(line);
    if (!name) return ANY;
    call.function = name->function;
    if (!text_pointer(line, &call.address)) return name->expected;
    if (!call.function) return end_thread(import, line, call.thread, name->expected);
    if (!read_operands(line, &call) || !read_times(line, &call)) return name->expected;
    return import_sink_call(&import->sink, &call);
}

static bool sniff(const char *head, size_t bytes) {
    struct import_text line;
    uint64_t thread;
    return import_first_line(head, bytes, &line) && text_decimal(&line, &thread) && text_word(&line, ": ") &&
           read_name(&line);
}

const struct import_format import_android = {
    .name = "android", .title = "Android memory_replay", .sniff = sniff, .line = take_line};
