// SPDX-License-Identifier: Apache-2.0
#include "baseline_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "json_values.h"
#include "talk.h"

const struct ht_baseline_check ht_baseline_unchecked = {NAN, NAN, NAN, NAN, NAN, NAN};

// Of what RSS may have been between two readings, what is nearest to the recorded figure: they tell no more.
static double nearest_bytes(double recorded, double before, double after) {
    return fmin(fmax(recorded, fmin(before, after)), fmax(before, after));
}

// The replay's RSS at a moment, by the readings around it; *at: the first reading not before it, for later moments.
static double replayed_bytes(const struct ht_built_form *built, const uint64_t *rss_bytes, uint64_t time_ns,
                             double recorded, size_t *at) {
    while (*at + 1 < built->form->samples && built->points[*at].time_ns < time_ns) ++*at;
    return nearest_bytes(recorded, (double)rss_bytes[*at ? *at - 1 : 0], (double)rss_bytes[*at]);
}

// The mean of both along the trace. A sample stands for the time until the next one.
static void check_curve(const struct ht_own_memory *recorded, const struct ht_built_form *built,
                        const uint64_t *rss_bytes, struct ht_baseline_check *check) {
    double distance = 0, mean = 0, weights = 0;
    size_t at = 0;
    for (size_t i = 0; i + 1 < recorded->count; i++) {
        double weight = (double)(recorded->time_ns[i + 1] - recorded->time_ns[i]);
        double heap = (double)recorded->heap_bytes[i];
        distance += weight * fabs(replayed_bytes(built, rss_bytes, recorded->time_ns[i], heap, &at) - heap);
        mean += weight * heap;
        weights += weight;
    }
    if (weights <= 0 || mean <= 0) return;
    check->curve_bytes = distance / weights;
    check->curve_error = distance / mean;
}

static void compare(double replayed, double recorded, double *error, double *bytes) {
    if (recorded <= 0) return;
    *bytes = replayed - recorded;
    *error = replayed / recorded - 1;
}

struct ht_baseline_check ht_baseline_check(const struct ht_recorded_program *program,
                                           const struct ht_built_form *built, const uint64_t *rss_bytes,
                                           double peak_bytes, double end_bytes) {
    struct ht_baseline_check check = ht_baseline_unchecked;
    const struct ht_own_memory *recorded = &program->own;
    if (isnan(program->heap_peak_bytes) || !recorded->count || !built->form->samples) return check;
    compare(peak_bytes, program->heap_peak_bytes, &check.peak_error, &check.peak_bytes);
    // A program that is killed is not sampled at its end: the end is the last sample's moment.
    size_t at = 0, last = recorded->count - 1, points = built->form->samples;
    double heap = (double)recorded->heap_bytes[last];
    if (recorded->time_ns[last] < built->points[points - 1].time_ns)
        end_bytes = replayed_bytes(built, rss_bytes, recorded->time_ns[last], heap, &at);
    compare(end_bytes, heap, &check.end_error, &check.end_bytes);
    check_curve(recorded, built, rss_bytes, &check);
    return check;
}

// Is a difference too large for figures that rest on the replay?
static bool baseline_differs(const struct ht_baseline_check *check) {
    return ht_memory_differs(check->peak_error, check->peak_bytes) ||
           ht_memory_differs(check->end_error, check->end_bytes) ||
           ht_memory_differs(check->curve_error, check->curve_bytes);
}

__attribute__((format(printf, 2, 3))) static void give(json_t *reasons, const char *format, ...) {
    char text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    json_t *reason = json_string(text);  // NULL where a character was cut
    if (reason) json_array_append_new(reasons, reason);
}

// As far as the trace knows; empty where it knows nothing.
static json_t *reasons_of(const struct ht_recorded_program *program, const struct ht_built_form *built,
                          const char *version, const char *thp) {
    json_t *reasons = json_array();
    char number[HT_NUMBER_OF_BYTES], left[HT_SETTINGS_TEXT_BYTES], recorded[32], alone[32];
    const struct run_check *check = &program->check;
    if (ht_heap_share_is_small(&program->share))
        give(reasons, "most of its memory does not come from malloc");
    if (program->damage[0]) give(reasons, "its log was damaged: %s", program->damage);
    if (program->lost_calls)
        give(reasons, "%s %s not recorded", ht_number_of(number, program->lost_calls, "call"),
             program->lost_calls == 1 ? "was" : "were");
    if (program->foreign_frees)
        give(reasons, "it freed %s that no recorded call had allocated",
             ht_number_of(number, program->foreign_frees, "block"));
    if (ht_form_fresh_objects(built))
        give(reasons, "%s that %s begin in a fresh heap",
             ht_number_of(number, ht_form_fresh_objects(built), "block"),
             program->sliced ? "were live before the slice" : "its parent had allocated");
    if (program->was_checked && run_check_differs(check))
        give(reasons, "with the recorder it peaked at %s, in a run without it at %s",
             ht_bytes(recorded, (double)check->recorded_rss_peak_bytes),
             ht_bytes(alone, (double)check->alone_rss_peak_bytes));
    ht_settings_text(program->settings.list, program->settings.count, HT_SETTING_LEFT_OUT, left);
    if (*left) give(reasons, "it ran with %s, which no replay has", left);
    if (version && *version && program->allocator_version[0] &&
        strcmp(ht_version_number(version), ht_version_number(program->allocator_version)))
        give(reasons, "it ran under %s %s, and %s is replayed", program->allocator,
             program->allocator_version, version);
    if (program->thp[0] && thp && *thp && strcmp(program->thp, thp))
        give(reasons, "transparent huge pages were \"%s\", and are \"%s\" here", program->thp, thp);
    if (built->form->streams > 1)
        give(reasons, "which arena each of its %" PRIu32 " threads takes hangs on when they run",
             built->form->streams);
    return reasons;
}

// "12.3 MB (40 %) too much at the peak", where that differs.
static void say(char *text, size_t room, double error, double bytes, const char *where) {
    size_t used = strlen(text);
    if (!ht_memory_differs(error, bytes)) return;
    snprintf(text + used, room - used, "%s%.1f MB (%.0f %%) %s", used ? ", " : "", fabs(bytes) / 1e6,
             100 * fabs(error), where);
}

static json_t *words_of(const struct ht_baseline_check *check, const char *allocator, const json_t *reasons) {
    char by[256] = "", why[1024] = "", text[2048];
    const json_t *reason;
    size_t i;
    if (!baseline_differs(check)) return json_null();
    say(by, sizeof by, check->peak_error, check->peak_bytes,
        check->peak_error < 0 ? "too little at the peak" : "too much at the peak");
    say(by, sizeof by, check->end_error, check->end_bytes,
        check->end_error < 0 ? "too little at the end" : "too much at the end");
    say(by, sizeof by, check->curve_error, check->curve_bytes, "away on average");
    json_array_foreach(reasons, i, reason) {
        size_t used = strlen(why);
        snprintf(why + used, sizeof why - used, "%s%s", used ? "; " : "", json_string_value(reason));
    }
    snprintf(
        text, sizeof text,
        "the replay under %s is not what the program ran under: against the recorded heap it has %s. %s%s. "
        "No verdict on memory is recommended",
        allocator, by, *why ? "Perhaps because " : "Why is not known", why);
    return json_text(text);
}

json_t *ht_baseline_json(const struct ht_baseline_check *check, const struct ht_recorded_program *program,
                         const struct ht_built_form *built, const char *version, const char *thp) {
    if (isnan(check->peak_error)) return json_null();
    json_t *reasons = reasons_of(program, built, version, thp),
           *words = words_of(check, program->allocator, reasons);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "peak_error", json_figure(check->peak_error),
                     "end_error", json_figure(check->end_error), "curve_error",
                     json_figure(check->curve_error), "peak_bytes", json_whole(check->peak_bytes),
                     "end_bytes", json_whole(check->end_bytes), "curve_bytes", json_whole(check->curve_bytes),
                     "reasons", reasons, "words", words);
}
