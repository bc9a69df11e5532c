// SPDX-License-Identifier: Apache-2.0
#include "child_answer.h"

#include <stdio.h>
#include <string.h>

#include "allocator.h"
#include "form_builder.h"
#include "older_libc.h"

// No process had as much memory, or took as much time.
#define BYTES_LIMIT   (1ull << 52)
#define TIME_LIMIT_NS (1ull << 60)

// Bytes of the UTF-8 character that begins there, 0 if none does.
static size_t character_bytes(const unsigned char *at, size_t room) {
    unsigned char first = at[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || bytes > room) return 0;
    for (size_t i = 1; i < bytes; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    bool surrogate = first == 0xed && at[1] >= 0xa0, beyond = first == 0xf4 && at[1] >= 0x90;
    bool too_long = (first == 0xe0 && at[1] < 0xa0) || (first == 0xf0 && at[1] < 0x90);
    return surrogate || beyond || too_long ? 0 : bytes;
}

// Ends the string, and replaces what is not UTF-8, and control characters, by question marks.
static void make_text(char *text, size_t room) {
    unsigned char *at = (unsigned char *)text;
    text[room - 1] = 0;
    for (size_t i = 0, left = strlen(text); left;) {
        size_t bytes = at[i] < 0x20 || at[i] == 0x7f ? 0 : character_bytes(at + i, left);
        if (bytes == 2 && at[i] == 0xc2 && at[i + 1] < 0xa0) bytes = 0;  // control characters of 8 bits
        if (bytes == 0) at[i] = '?';
        bytes += bytes == 0;
        i += bytes;
        left -= bytes;
    }
}
#define MAKE_TEXT(array) make_text(array, sizeof(array))

static void make_texts(struct ht_exchange *answer) {
    struct ht_outcome *outcome = &answer->outcome;
    struct ht_child_figures *figures = &answer->figures;
    MAKE_TEXT(outcome->message);
    MAKE_TEXT(outcome->path);
    MAKE_TEXT(outcome->build_id);
    MAKE_TEXT(outcome->version);
    MAKE_TEXT(outcome->kind);
    MAKE_TEXT(outcome->first_failure);
    MAKE_TEXT(outcome->cycle_counter_reader);
    MAKE_TEXT(figures->purge_call);
    for (size_t i = 0; i < HT_KNOBS_MAX; i++) MAKE_TEXT(figures->knobs[i].value);
    for (size_t i = 0; i < HT_REPORT_VALUES_MAX; i++) MAKE_TEXT(figures->report_names[i]);
}

static bool are_bytes(uint64_t bytes) { return bytes < BYTES_LIMIT || bytes == HT_FIGURE_UNKNOWN; }
static bool is_errno(int64_t number) { return number == 0 || (number > 0 && strerrordesc_np((int)number)); }

static bool view_holds(const struct ht_kernel_view *view) {
    return are_bytes(view->rss_bytes) && are_bytes(view->lazyfree_bytes) &&
           are_bytes(view->anon_huge_bytes) && are_bytes(view->swap_bytes);
}

// What cannot be in the outcome of a child that came to its end, or NULL.
static const char *wrong_outcome(const struct ht_outcome *outcome) {
    const uint64_t times_ns[] = {outcome->cpu_ns,     outcome->first_cpu_ns, outcome->wait_ns,
                                 outcome->starved_ns, outcome->wall_ns,      outcome->background_cpu_ns,
                                 outcome->ticks_ns};
    for (size_t i = 0; i < sizeof times_ns / sizeof *times_ns; i++)
        if (times_ns[i] >= TIME_LIMIT_NS) return "a time";
    if (outcome->rss_start_bytes >= BYTES_LIMIT || outcome->rss_end_bytes >= BYTES_LIMIT) return "RSS";
    if (outcome->spacing.header_bytes >= HT_SNAPSHOT_PAGE_BYTES) return "the spacing of its blocks";
    return is_errno(outcome->snapshot_problem) ? NULL : "the problem of its snapshots";
}

// Tables are checked however the child ended: some are read after a failure, too.
static const char *wrong_tables(const struct ht_child_figures *figures, uint64_t samples) {
    if (figures->residencies > HT_RESIDENCIES_MAX) return "the number of residency readings";
    if (figures->reports > HT_REPORTS_MAX || figures->report_values > HT_REPORT_VALUES_MAX)
        return "the number of reports";
    for (uint32_t i = 0; i < figures->residencies; i++) {
        const struct ht_kernel_view *view = &figures->residency[i];
        if (view->sample >= samples || !view_holds(view)) return "a residency";
    }
    for (uint32_t i = 0; i < figures->reports; i++)
        if (figures->report[i].sample >= samples) return "a report";
    for (size_t i = 0; i < HT_KNOBS_MAX; i++)
        if (figures->knobs[i].state > HT_KNOB_MISSING) return "a knob";
    for (size_t i = 0; i < HT_PERF_EVENTS; i++)
        if (!is_errno(figures->perf[i].refusal)) return "a counter";
    if (!view_holds(&figures->residency_end)) return "a residency";
    if (figures->arenas.used > BYTES_LIMIT && figures->arenas.used != HT_FIGURE_UNKNOWN) return "its arenas";
    if (figures->arenas.most > BYTES_LIMIT && figures->arenas.most != HT_FIGURE_UNKNOWN) return "its arenas";
    if (!are_bytes(figures->rss_after_free_bytes) || !are_bytes(figures->rss_after_purge_bytes)) return "RSS";
    if (!is_errno(figures->watch_refusal)) return "the watch's refusal";
    return is_errno(figures->filter_refusal) ? NULL : "the filter's refusal";
}

static const char *wrong_stretches(const struct ht_child_figures *figures, uint32_t stretches) {
    for (uint32_t i = 0; i < stretches; i++) {
        const struct ht_stretch_accounts *of = &figures->stretch[i];
        const uint64_t accounts[] = {of->live_bytes,     of->rounding_bytes,   of->headers_bytes,
                                     of->holes_bytes,    of->free_pages_bytes, of->tables_bytes,
                                     of->untouched_bytes};
        uint64_t rest = of->rss_bytes;
        for (size_t k = 0; k < sizeof accounts / sizeof *accounts; k++) {
            if (accounts[k] > rest) return "the accounts of a stretch";
            rest -= accounts[k];
        }
        if (rest || of->rss_bytes >= BYTES_LIMIT || of->not_resident_bytes >= BYTES_LIMIT)
            return "the accounts of a stretch";
    }
    return NULL;
}

static const char *wrong_samples(const uint64_t *rss_bytes, uint64_t samples) {
    for (uint64_t i = 0; i < samples; i++)
        if (rss_bytes[i] >= BYTES_LIMIT) return "RSS";
    return NULL;
}

static const char *what_is_wrong(const struct ht_exchange *answer, const struct ht_job *job,
                                 const struct ht_built_form *built, const uint64_t *rss_bytes,
                                 const uint64_t *high_bytes) {
    const struct ht_outcome *outcome = &answer->outcome;
    uint64_t samples = built ? built->form->samples : 0;
    if (memcmp(&answer->job, job, sizeof *job) != 0) return "the request";
    if (outcome->state > HT_OUTCOME_DONE) return "its state";
    const char *wrong = wrong_tables(&answer->figures, samples);
    if (wrong || outcome->state != HT_OUTCOME_DONE || !built) return wrong;
    wrong = wrong_outcome(outcome);
    if (!wrong && (job->pass == HT_PASS_MEMORY || job->pass == HT_PASS_SNAPSHOT))
        wrong = wrong_samples(rss_bytes, samples);
    if (!wrong && job->pass == HT_PASS_MEMORY) wrong = wrong_samples(high_bytes, samples);
    if (!wrong && job->pass == HT_PASS_LIMIT && answer->figures.group_bytes >= BYTES_LIMIT &&
        answer->figures.group_bytes != HT_FIGURE_UNKNOWN)
        wrong = "its control group's memory";
    if (!wrong && job->pass == HT_PASS_SNAPSHOT) wrong = wrong_stretches(&answer->figures, job->stretches);
    uint64_t repeats = answer->figures.repeats, most = job->repeats ? job->repeats : 1;
    if (!wrong && job->pass == HT_PASS_FLAT && (repeats < 1 || repeats > most)) wrong = "its repeats";
    return wrong;
}

bool ht_child_answer_check(struct ht_exchange *answer, const struct ht_job *job,
                           const struct ht_built_form *built, const uint64_t *rss_bytes,
                           const uint64_t *high_bytes, char *problem, size_t room) {
    make_texts(answer);
    const char *wrong = what_is_wrong(answer, job, built, rss_bytes, high_bytes);
    if (!wrong) return true;
    snprintf(problem, room, "its results are invalid (%s): it overwrote memory of replay", wrong);
    answer->job = *job;
    answer->outcome = (struct ht_outcome){0};
    answer->figures = (struct ht_child_figures){.repeats = 1};
    answer->findings = (struct ht_verify_findings){0};
    return false;
}
