// SPDX-License-Identifier: Apache-2.0
#include "verify_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "form_lookup.h"
#include "talk.h"

const char *const ht_violation_names[HT_VIOLATION_KINDS] = {
    [HT_VIOLATION_OVERLAP] = "overlap",   [HT_VIOLATION_ALIGNMENT] = "alignment",
    [HT_VIOLATION_ZEROS] = "zeros",       [HT_VIOLATION_CHANGED] = "changed",
    [HT_VIOLATION_NOT_KEPT] = "not_kept", [HT_VIOLATION_USABLE] = "usable_size",
    [HT_VIOLATION_FAILED] = "failed",
};

enum { PLACES = 3, NAME_BYTES = 80 };  // found at, made at, the other's

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

static void print_overlap(const struct ht_violation *v, const char *other, char *text, size_t room) {
    int64_t ahead = (int64_t)v->offset;  // of the other block's start before ours
    if (ahead <= 0) {
        snprintf(text, room,
                 "its block of %" PRIu64 " bytes (slot %u) begins %" PRIu64
                 " bytes into the live block of %" PRIu64 " bytes of slot %u, from %s",
                 v->bytes, v->slot, (uint64_t)-ahead, v->expected, v->other_slot, other);
    } else {
        snprintf(text, room,
                 "in its block of %" PRIu64 " bytes (slot %u), at byte %" PRIu64
                 ", the live block of %" PRIu64 " bytes of slot %u begins, from %s",
                 v->bytes, v->slot, (uint64_t)ahead, v->expected, v->other_slot, other);
    }
}

static void describe_what(const struct ht_violation *v, const char *made, const char *other, char *text,
                          size_t room) {
    switch ((enum ht_violation_kind)v->kind) {
    case HT_VIOLATION_OVERLAP: print_overlap(v, other, text, room); break;
    case HT_VIOLATION_ALIGNMENT:
        snprintf(text, room,
                 "expected a block of %" PRIu64 " bytes (slot %u) at a multiple of %" PRIu64 ", found it "
                 "at a multiple of %" PRIu64 " only",
                 v->bytes, v->slot, v->expected, v->found);
        break;
    case HT_VIOLATION_ZEROS:
        snprintf(text, room, "expected %" PRIu64 " bytes of zeros (slot %u), found 0x%02x at byte %" PRIu64,
                 v->bytes, v->slot, (unsigned)v->found, v->offset);
        break;
    case HT_VIOLATION_CHANGED:
    case HT_VIOLATION_NOT_KEPT:
        snprintf(text, room,
                 "byte %" PRIu64 "%s the %" PRIu64 " bytes in slot %u, from %s, %s: expected 0x%02x, "
                 "found 0x%02x",
                 v->offset, v->offset < v->bytes ? " of" : ", which malloc_usable_size gives beyond",
                 v->bytes, v->slot, made,
                 v->kind == HT_VIOLATION_CHANGED ? "changed meanwhile" : "not kept by realloc",
                 (unsigned)v->expected, (unsigned)v->found);
        break;
    case HT_VIOLATION_USABLE:
        snprintf(text, room,
                 "expected a usable size of at least %" PRIu64 " bytes (slot %u), found %" PRIu64 " by "
                 "malloc_usable_size",
                 v->expected, v->slot, v->found);
        break;
    case HT_VIOLATION_FAILED:
        snprintf(text, room, "expected %" PRIu64 " bytes (slot %u), as when recorded, found NULL", v->bytes,
                 v->slot);
        break;
    case HT_VIOLATION_KINDS: break;
    }
}

static void describe_one(const struct ht_violation *v, const struct ht_found_call *calls, bool one_thread,
                         char text[HT_VIOLATION_TEXT_BYTES]) {
    char found[NAME_BYTES], made[NAME_BYTES], other[NAME_BYTES];
    name_call(&calls[0], one_thread, found);
    name_call(&calls[1], one_thread, made);
    name_call(&calls[2], one_thread, other);
    int used = snprintf(text, HT_VIOLATION_TEXT_BYTES, "%s: ", found);
    describe_what(v, made, other, text + used, HT_VIOLATION_TEXT_BYTES - (size_t)used);
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
    for (int i = 0; i < HT_VERIFIED_FUNCTIONS; i++)
        report->blocks_by[i] = atomic_load(&findings->blocks_by[i]);
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

static const char *const verified_names[HT_VERIFIED_FUNCTIONS] = {
    [HT_VERIFIED_MALLOC] = "malloc",
    [HT_VERIFIED_CALLOC] = "calloc",
    [HT_VERIFIED_REALLOC] = "realloc",
    [HT_VERIFIED_ALIGNED] = "posix_memalign",
};

static void append(char text[HT_EXERCISED_TEXT_BYTES], const char *between, const char *words) {
    size_t used = strlen(text);
    snprintf(text + used, HT_EXERCISED_TEXT_BYTES - used, "%s%s", used ? between : "", words);
}

const char *ht_verify_exercised(char text[HT_EXERCISED_TEXT_BYTES], const struct ht_verify_report *report) {
    char number[HT_NUMBER_OF_BYTES], words[2 * HT_NUMBER_OF_BYTES + 64];
    text[0] = 0;
    for (int i = 0; i < HT_VERIFIED_FUNCTIONS; i++) {
        if (!report->blocks_by[i]) continue;
        snprintf(words, sizeof words, "%s of %s", ht_number_of(number, report->blocks_by[i], "block"),
                 verified_names[i]);
        append(text, ", ", words);
    }
    snprintf(words, sizeof words, "up to %s, alignments up to %" PRIu64,
             ht_number_of(number, report->largest_bytes, "byte"), report->largest_alignment);
    append(text, ", ", words);
    snprintf(words, sizeof words, "on %s", ht_number_of(number, report->threads, "thread"));
    append(text, ", ", words);
    return text;
}

const char *ht_verify_not_exercised(char text[HT_EXERCISED_TEXT_BYTES],
                                    const struct ht_verify_report *report) {
    text[0] = 0;
    for (int i = 0; i < HT_VERIFIED_FUNCTIONS; i++)
        if (!report->blocks_by[i]) append(text, ", ", verified_names[i]);
    append(text, ", ", "aligned_alloc, memalign, valloc, pvalloc");
    if (report->usable_unknown) append(text, ", ", "malloc_usable_size (it has none)");
    append(text, "; ", "larger blocks and alignments");
    append(text, ", ", report->threads == 1 ? "several threads" : "races that did not come about");
    append(text, ", ", "calls that must fail, whether freed memory is used again");
    return text;
}
