// SPDX-License-Identifier: Apache-2.0
#include "verify_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "form_lookup.h"
#include "json_values.h"
#include "older_libc.h"
#include "talk.h"

const char *const ht_violation_names[HT_VIOLATION_KINDS] = {
    [HT_VIOLATION_OVERLAP] = "overlap",
    [HT_VIOLATION_ALIGNMENT] = "alignment",
    [HT_VIOLATION_ZEROS] = "zeros",
    [HT_VIOLATION_CHANGED] = "changed",
    [HT_VIOLATION_NOT_KEPT] = "not_kept",
    [HT_VIOLATION_USABLE] = "usable_size",
    [HT_VIOLATION_FAILED] = "failed",
    [HT_VIOLATION_GIVEN] = "given",
    [HT_VIOLATION_NOT_USED] = "not_used_again",
    [HT_VIOLATION_ENDED] = "ended",
};

static const char *const function_names[HT_VERIFIED_FUNCTIONS] = {
    [HT_VERIFIED_MALLOC] = "malloc",
    [HT_VERIFIED_CALLOC] = "calloc",
    [HT_VERIFIED_REALLOC] = "realloc",
    [HT_VERIFIED_ALIGNED] = "posix_memalign",
    [HT_VERIFIED_ALIGNED_ALLOC] = "aligned_alloc",
    [HT_VERIFIED_MEMALIGN] = "memalign",
    [HT_VERIFIED_VALLOC] = "valloc",
    [HT_VERIFIED_PVALLOC] = "pvalloc",
    [HT_VERIFIED_REALLOCARRAY] = "reallocarray",
    [HT_VERIFIED_NEW] = "operator new",
    [HT_VERIFIED_NEW_ARRAY] = "operator new[]",
    [HT_VERIFIED_NEW_ALIGNED] = "aligned operator new",
};

static const char *const part_names[HT_TORTURE_PARTS] = {
    [HT_TORTURE_FIRST_CALLS] = "first calls by threads at once",
    [HT_TORTURE_SIZES] = "sizes",
    [HT_TORTURE_ALIGNMENTS] = "alignments",
    [HT_TORTURE_REALLOC] = "realloc",
    [HT_TORTURE_REFUSALS] = "calls that must fail",
    [HT_TORTURE_REUSE] = "memory used again",
    [HT_TORTURE_DUEL] = "threads stopped anywhere",
    [HT_TORTURE_THREADS] = "threads at once",
    [HT_TORTURE_THREAD_ENDS] = "threads that end",
    [HT_TORTURE_FORK] = "fork",
    [HT_TORTURE_NO_MEMORY] = "want of memory",
};

enum { PLACES = 3 };  // found at, made at, the other's
enum { NAME_BYTES = 80, LONG_NAME_BYTES = 120, COUNT_BYTES = 32 };

static void name_call(const struct ht_found_call *call, bool one_thread, char text[NAME_BYTES]) {
    if (call->place.stream == HT_STREAM_END) {
        snprintf(text, NAME_BYTES, "at the end");
    } else if (!call->found) {
        snprintf(text, NAME_BYTES, "call %" PRIu64 " of thread %u", call->place.call, call->place.stream);
    } else if (one_thread) {
        snprintf(text, NAME_BYTES, "event %" PRIu64 " (%s)", call->event,
                 ht_functions[ht_op_function(call->op)].name);
    } else {
        snprintf(text, NAME_BYTES, "event %" PRIu64 " (%s, thread %u)", call->event,
                 ht_functions[ht_op_function(call->op)].name, call->thread);
    }
}

// Names of a violation's calls and blocks.
struct names {
    char found[NAME_BYTES];  // the call that found it
    char slot[NAME_BYTES];   // the block's
    char block[LONG_NAME_BYTES], other[LONG_NAME_BYTES];
    char bytes[COUNT_BYTES], expected[COUNT_BYTES];  // its numbers, with the unit
};

static void put_bytes(char text[COUNT_BYTES], uint64_t bytes) {
    snprintf(text, COUNT_BYTES, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
}

static void print_overlap(const struct ht_violation *v, const struct names *names, char *text, size_t room) {
    int64_t ahead = (int64_t)v->offset;  // of the other block's start before ours
    if (ahead <= 0) {
        char into[COUNT_BYTES];
        put_bytes(into, (uint64_t)-ahead);
        snprintf(text, room, "its block of %s (%s) begins %s into the live block of %s %s", names->bytes,
                 names->slot, into, names->expected, names->other);
    } else {
        snprintf(text, room, "in its block of %s (%s), at byte %" PRIu64 ", the live block of %s %s begins",
                 names->bytes, names->slot, (uint64_t)ahead, names->expected, names->other);
    }
}

// Of the torture alone.
static void describe_misuse(const struct ht_violation *v, const struct names *names, char *text,
                            size_t room) {
    char freed[COUNT_BYTES], grown[COUNT_BYTES];
    switch ((enum ht_violation_kind)v->kind) {
    case HT_VIOLATION_GIVEN:
        put_bytes(freed, v->found);
        snprintf(text, room, "expected NULL for %" PRIu64 " times %s (%s), found a block", v->expected, freed,
                 names->slot);
        break;
    case HT_VIOLATION_NOT_USED:
        ht_bytes(freed, (double)v->expected);
        ht_bytes(grown, (double)v->found);
        if (v->offset) snprintf(text, room, "its blocks need less than %s, and it holds %s", freed, grown);
        else if (v->bytes)
            snprintf(text, room, "while %s of blocks of %s (%s) were freed and made again, memory grew by %s",
                     freed, names->bytes, names->slot, grown);
        else snprintf(text, room, "while %s were freed and made again, memory grew by %s", freed, grown);
        break;
    default:
        if (v->found)
            snprintf(text, room, "a forked process was killed by %s (SIG%s)", strsignal((int)v->found),
                     sigabbrev_np((int)v->found));
        else snprintf(text, room, "a forked process did not end");
    }
}

static void describe_what(const struct ht_violation *v, struct names *names, char *text, size_t room) {
    put_bytes(names->bytes, v->bytes);
    put_bytes(names->expected, v->expected);
    switch ((enum ht_violation_kind)v->kind) {
    case HT_VIOLATION_OVERLAP: print_overlap(v, names, text, room); break;
    case HT_VIOLATION_ALIGNMENT:
        snprintf(text, room,
                 "expected a block of %s (%s) at a multiple of %" PRIu64
                 ", found it at a multiple of %" PRIu64 " only",
                 names->bytes, names->slot, v->expected, v->found);
        break;
    case HT_VIOLATION_ZEROS:
        snprintf(text, room, "expected %s of zeros (%s), found 0x%02x at byte %" PRIu64, names->bytes,
                 names->slot, (unsigned)v->found, v->offset);
        break;
    case HT_VIOLATION_CHANGED:
    case HT_VIOLATION_NOT_KEPT:
        snprintf(text, room, "byte %" PRIu64 "%s the %s %s, %s: expected 0x%02x, found 0x%02x", v->offset,
                 v->offset < v->bytes ? " of" : ", which malloc_usable_size gives beyond", names->bytes,
                 names->block, v->kind == HT_VIOLATION_CHANGED ? "changed meanwhile" : "not kept by realloc",
                 (unsigned)v->expected, (unsigned)v->found);
        break;
    case HT_VIOLATION_USABLE:
        snprintf(text, room,
                 "expected a usable size of at least %s (%s), found %" PRIu64 " by malloc_usable_size",
                 names->expected, names->slot, v->found);
        break;
    case HT_VIOLATION_FAILED:
        snprintf(text, room, "expected %s (%s)%s, found NULL", names->bytes, names->slot,
                 v->found_at.stream == HT_STREAM_TORTURE ? "" : ", as when recorded");
        break;
    default: describe_misuse(v, names, text, room);
    }
}

static void describe_one(const struct ht_violation *v, const struct ht_found_call *calls, bool one_thread,
                         char text[HT_VIOLATION_TEXT_BYTES]) {
    struct names names;
    char made[NAME_BYTES], other[NAME_BYTES];
    name_call(&calls[0], one_thread, names.found);
    name_call(&calls[1], one_thread, made);
    name_call(&calls[2], one_thread, other);
    snprintf(names.slot, NAME_BYTES, "slot %u", v->slot);
    snprintf(names.block, LONG_NAME_BYTES, "in slot %u, from %s", v->slot, made);
    snprintf(names.other, LONG_NAME_BYTES, "of slot %u, from %s", v->other_slot, other);
    int used = snprintf(text, HT_VIOLATION_TEXT_BYTES, "%s: ", names.found);
    describe_what(v, &names, text + used, HT_VIOLATION_TEXT_BYTES - (size_t)used);
}

static const char *function_name(struct ht_call_place made_at) {
    return made_at.call < HT_VERIFIED_FUNCTIONS ? function_names[made_at.call] : "unknown";
}

static void describe_tortured(const struct ht_violation *v, char text[HT_VIOLATION_TEXT_BYTES]) {
    struct names names;
    const char *part = v->found_at.call < HT_TORTURE_PARTS ? part_names[v->found_at.call] : "unknown";
    snprintf(names.slot, NAME_BYTES, "%s", function_name(v->made_at));
    snprintf(names.block, LONG_NAME_BYTES, "from %s", function_name(v->made_at));
    snprintf(names.other, LONG_NAME_BYTES, "from %s", function_name(v->other_made_at));
    int used = snprintf(text, HT_VIOLATION_TEXT_BYTES, "torture, %s: ", part);
    describe_what(v, &names, text + used, HT_VIOLATION_TEXT_BYTES - (size_t)used);
}

void ht_verify_describe(const struct ht_built_form *built, const struct ht_verify_findings *findings,
                        struct ht_verify_report *report) {
    struct ht_found_call calls[HT_VIOLATIONS_REPORTED * PLACES] = {0};
    const struct ht_violation *written[HT_VIOLATIONS_REPORTED];
    struct ht_error error = {0};
    bool one_thread = built->form->streams == 1;
    size_t count = 0;
    *report = (struct ht_verify_report){.violations = atomic_load(&findings->violations),
                                        .known = atomic_load(&findings->known),
                                        .blocks_checked = findings->blocks_checked,
                                        .usable_unknown = findings->usable_unknown,
                                        .largest_bytes = atomic_load(&findings->largest_bytes),
                                        .largest_alignment = atomic_load(&findings->largest_alignment),
                                        .threads = (uint64_t)built->form->streams * built->side_by_side};
    for (int i = 0; i < HT_VERIFIED_TRACE; i++) report->blocks_by[i] = atomic_load(&findings->blocks_by[i]);
    for (int i = 0; i < HT_VIOLATION_KINDS; i++) report->counts[i] = atomic_load(&findings->counts[i]);
    for (size_t i = 0; i < HT_VIOLATIONS_REPORTED; i++) {
        const struct ht_violation *v = &findings->first[i];
        // A child that was killed while it wrote leaves what it had not finished unreported.
        if (!atomic_load(&v->written) || v->kind >= HT_VIOLATION_KINDS) continue;
        written[count] = v;
        calls[count * PLACES].place = v->found_at;
        calls[count * PLACES + 1].place = v->made_at;
        calls[count * PLACES + 2].place = v->other_made_at;
        count++;
    }
    // Without it there is still the number of the call.
    if (count) ht_form_look_up(built, calls, count * PLACES, &error);
    for (size_t i = 0; i < count; i++)
        describe_one(written[i], &calls[i * PLACES], one_thread, report->texts[i]);
    report->texts_count = count;
}

void ht_verify_add_torture(const struct ht_verify_findings *findings, struct ht_verify_report *report) {
    report->tortured = true;
    report->torture = findings->torture;
    report->violations += atomic_load(&findings->violations);
    report->known += atomic_load(&findings->known);
    report->usable_unknown |= findings->usable_unknown;
    report->torture_largest_bytes = atomic_load(&findings->largest_bytes);
    report->torture_largest_alignment = atomic_load(&findings->largest_alignment);
    for (int i = 0; i < HT_VERIFIED_FUNCTIONS; i++)
        if (atomic_load(&findings->blocks_by[i])) report->tortured_by |= 1u << i;
    for (int i = 0; i < HT_VIOLATION_KINDS; i++) report->counts[i] += atomic_load(&findings->counts[i]);
    for (size_t i = 0; i < HT_VIOLATIONS_REPORTED; i++) {
        const struct ht_violation *v = &findings->first[i];
        if (!atomic_load(&v->written) || v->kind >= HT_VIOLATION_KINDS) continue;
        describe_tortured(v, report->texts[report->texts_count++]);
    }
}

void ht_verify_torture_call(char text[HT_VIOLATION_TEXT_BYTES], const struct ht_torture_record *record) {
    const struct ht_call_place call = {HT_STREAM_TORTURE, record->function};
    char bytes[COUNT_BYTES];
    put_bytes(bytes, record->bytes);
    if (record->part >= HT_TORTURE_PARTS)
        snprintf(text, HT_VIOLATION_TEXT_BYTES, "at the end of the torture");
    else
        snprintf(text, HT_VIOLATION_TEXT_BYTES, "torture, %s, at or after %s of %s, alignment %" PRIu64,
                 part_names[record->part], function_name(call), bytes, record->alignment);
}

static void append(char text[HT_EXERCISED_TEXT_BYTES], const char *between, const char *words) {
    size_t used = strlen(text);
    snprintf(text + used, HT_EXERCISED_TEXT_BYTES - used, "%s%s", used ? between : "", words);
}

const char *ht_verify_exercised(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report) {
    char number[HT_NUMBER_OF_BYTES], words[2 * HT_NUMBER_OF_BYTES + 64];
    text[0] = 0;
    for (int i = 0; i < HT_VERIFIED_TRACE; i++) {
        if (!report->blocks_by[i]) continue;
        snprintf(words, sizeof words, "%s of %s", ht_number_of(number, report->blocks_by[i], "block"),
                 function_names[i]);
        append(text, ", ", words);
    }
    snprintf(words, sizeof words, "up to %s, alignments up to %" PRIu64,
             ht_number_of(number, report->largest_bytes, "byte"), report->largest_alignment);
    append(text, ", ", words);
    snprintf(words, sizeof words, "on %s", ht_number_of(number, report->threads, "thread"));
    append(text, ", ", words);
    return text;
}

static bool part_done(const struct ht_verify_report *report, int part) {
    return report->torture.done >> part & 1;
}

const char *ht_verify_tortured(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report) {
    const struct ht_torture_record *of = &report->torture;
    char words[160], alignment[32], freed[32], returned[32], number[32], other[32];
    text[0] = 0;
    for (int i = 0; i < HT_VERIFIED_FUNCTIONS; i++)
        if (report->tortured_by >> i & 1) append(text, ", ", function_names[i]);
    if (!report->usable_unknown) append(text, ", ", "malloc_usable_size");
    append(text, "; ", "up to ");
    append(text, "", ht_number_of(words, report->torture_largest_bytes, "byte"));
    snprintf(words, sizeof words, "alignments up to %s",
             ht_grouped(alignment, report->torture_largest_alignment));
    append(text, ", ", words);
    snprintf(words, sizeof words, "%s reallocs that move and %s that do not", ht_grouped(number, of->moved),
             ht_grouped(other, of->in_place));
    append(text, ", ", words);
    snprintf(words, sizeof words, "%s threads (%u at once on %u %s) that free %s blocks of others",
             ht_grouped(number, of->threads_ended), of->threads, of->processors,
             of->processors == 1 ? "processor" : "processors", ht_grouped(other, of->crossing_frees));
    if (of->threads > 1) append(text, ", ", words);
    for (int i = 0; i < HT_TORTURE_PARTS; i++) {
        bool told = i == HT_TORTURE_SIZES || i == HT_TORTURE_ALIGNMENTS || i == HT_TORTURE_REALLOC ||
                    i == HT_TORTURE_THREADS || i == HT_TORTURE_THREAD_ENDS;
        if (part_done(report, i) && !told) append(text, ", ", part_names[i]);
    }
    snprintf(words, sizeof words, "%s of %s returned to the kernel",
             ht_bytes(returned, (double)of->returned_bytes), ht_bytes(freed, (double)of->freed_bytes));
    if (part_done(report, HT_TORTURE_REUSE)) append(text, ", ", words);
    return text;
}

static void append_lacking(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report) {
    bool any = false;
    for (int i = 0; i < HT_VERIFIED_FUNCTIONS; i++) {
        bool lacks = report->torture.lacking >> i & 1;
        if (lacks) append(text, ", ", function_names[i]);
        any |= lacks;
    }
    if (report->usable_unknown) append(text, ", ", "malloc_usable_size");
    if (any || report->usable_unknown) append(text, " ", "(it has none)");
}

static void append_not_done(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report) {
    for (int i = 0; i < HT_TORTURE_PARTS; i++) {
        bool of_threads = i == HT_TORTURE_FIRST_CALLS || i == HT_TORTURE_DUEL || i == HT_TORTURE_THREADS ||
                          i == HT_TORTURE_THREAD_ENDS;
        if (!part_done(report, i) && !(of_threads && report->one_thread)) append(text, ", ", part_names[i]);
    }
    if (report->one_thread) append(text, ", ", "several threads (--threads 1)");
    else if (report->torture.processors == 1)
        append(text, ", ", "threads that run at once (there is one processor)");
}

const char *ht_verify_not_exercised(char text[HT_EXERCISED_TEXT_BYTES],
                                    const struct ht_verify_report *report) {
    char bytes[32], alignment[32], words[128];
    uint64_t largest = report->largest_bytes, aligned = report->largest_alignment;
    text[0] = 0;
    if (report->torture_largest_bytes > largest) largest = report->torture_largest_bytes;
    if (report->torture_largest_alignment > aligned) aligned = report->torture_largest_alignment;
    append_lacking(text, report);
    append_not_done(text, report);
    snprintf(words, sizeof words, "more than %s bytes, alignments above %s", ht_grouped(bytes, largest),
             ht_grouped(alignment, aligned));
    append(text, ", ", words);
    append(text, ", ", "forks beside threads, signal handlers");
    if (!report->one_thread) append(text, ", ", "races that did not come about");
    return text;
}

const char *ht_verify_departures(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report) {
    static const char *const departures[HT_DEPARTURES] = {
        [HT_DEPARTURE_ALIGNMENT] = "no EINVAL for an alignment that is no power of two, or too small, by ",
        [HT_DEPARTURE_OVERFLOW] = "a small block for a size near 2^64 by ",
        [HT_DEPARTURE_ERRNO] = "free changes errno",
        [HT_DEPARTURE_ABORT] = "it aborts where it has to return NULL"};
    text[0] = 0;
    for (int i = 0; i < HT_DEPARTURES; i++) {
        uint32_t functions = report->torture.departures[i];
        bool named = i == HT_DEPARTURE_ALIGNMENT || i == HT_DEPARTURE_OVERFLOW;
        if (functions) append(text, "; ", departures[i]);
        for (int k = 0, more = 0; k < HT_VERIFIED_FUNCTIONS && named; k++)
            if (functions >> k & 1) append(text, more++ ? ", " : "", function_names[k]);
    }
    return text;
}

static json_t *names_json(uint32_t bits, const char *const *names, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        if (bits >> i & 1) json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *torture_json(const struct ht_verify_report *report) {
    const struct ht_torture_record *of = &report->torture;
    json_t *json =
        json_pack("{s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "calls",
                  (json_int_t)of->calls, "functions",
                  names_json(report->tortured_by, function_names, HT_VERIFIED_FUNCTIONS), "lacking",
                  names_json(of->lacking, function_names, HT_VERIFIED_FUNCTIONS), "largest_bytes",
                  (json_int_t)report->torture_largest_bytes, "largest_alignment",
                  (json_int_t)report->torture_largest_alignment, "threads", (json_int_t)of->threads_ended,
                  "threads_at_once", (json_int_t)of->threads, "processors", (json_int_t)of->processors,
                  "cross_thread_frees", (json_int_t)of->crossing_frees, "reallocs_moved",
                  (json_int_t)of->moved, "reallocs_in_place", (json_int_t)of->in_place, "freed_bytes",
                  (json_int_t)of->freed_bytes, "returned_bytes", (json_int_t)of->returned_bytes, "parts",
                  names_json(of->done, part_names, HT_TORTURE_PARTS), "parts_left_out",
                  names_json(~of->done, part_names, HT_TORTURE_PARTS));
    return json;
}

void ht_verify_json_add(json_t *run, const struct ht_verify_report *report) {
    json_t *kinds = report ? json_object() : json_null(), *texts = report ? json_array() : json_null();
    json_t *blocks = report ? json_object() : json_null();
    char text[HT_EXERCISED_TEXT_BYTES];
    for (size_t i = 0; report && i < HT_VIOLATION_KINDS; i++)
        if (report->counts[i]) json_set_number(kinds, ht_violation_names[i], report->counts[i]);
    for (size_t i = 0; report && i < report->texts_count; i++)
        json_array_append_new(texts, json_string(report->texts[i]));
    for (int i = 0; report && i < HT_VERIFIED_TRACE; i++)
        json_set_number(blocks, function_names[i], report->blocks_by[i]);
    json_set_count(run, "violations", report ? report->violations : HT_FIGURE_UNKNOWN);
    json_object_set_new(run, "violation_kinds", kinds);
    json_object_set_new(run, "violations_told", texts);
    json_object_set_new(run, "verified_blocks", blocks);
    json_object_set_new(run, "torture", report && report->tortured ? torture_json(report) : json_null());
    json_set_known_text(run, "departures", report ? ht_verify_departures(text, report) : NULL);
    json_set_known_text(run, "not_exercised", report ? ht_verify_not_exercised(text, report) : NULL);
}
