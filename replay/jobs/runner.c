// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "print.h"
#include "results_line.h"

static const uint64_t time_window_ns = 10000000, memory_window_ns = 1000000;
// An extension has as many windows at most, unless they would be longer than that: threads wait for each other at the end of
// each, which would take longer than all calls. RSS of a steady load is the same, unless threads live so briefly that ones which
// never met would be there together.
static const uint64_t extended_windows = 20000, extended_window_ns_max = 100000000;

static uint64_t usual_window_ns(const struct ht_runner *r, bool of_memory) {
    uint64_t usual_ns = of_memory ? memory_window_ns : time_window_ns;
    const struct ht_extended_part *extended = &r->program->extended;
    if (!extended->to_ns) return usual_ns;
    uint64_t extended_ns = extended->to_ns / extended_windows, lives_ns = extended->thread_lives_ns;
    if (extended_ns > extended_window_ns_max) extended_ns = extended_window_ns_max;
    if (lives_ns && extended_ns > lives_ns) extended_ns = lives_ns;
    return extended_ns > usual_ns ? extended_ns : usual_ns;
}

static bool calls_operators(const struct ht_runner *r) {
    uint64_t calls = 0;
    for (unsigned i = HT_NEW; r->built && i <= HT_DELETE_ARRAY_SIZED_ALIGNED; i++)
        calls += r->built->calls[i];
    return calls;
}

struct ht_job ht_runner_job(const struct ht_runner *r, enum ht_pass pass) {
    bool of_memory = pass == HT_PASS_MEMORY || pass == HT_PASS_ACCOUNT || pass == HT_PASS_SNAPSHOT ||
                     pass == HT_PASS_LIMIT;
    // What the operators do besides malloc and free makes no difference to memory.
    bool of_time = pass == HT_PASS_DESCRIBE || pass == HT_PASS_FLAT || pass == HT_PASS_TIMED;
    const struct ht_pace *pace = of_memory ? &r->plan->paces.memory : &r->plan->paces.time;
    struct ht_job job = {
        .pass = pass,
        .touch = r->plan->touch,
        .touch_free = r->plan->touch_free,
        .warm_of_2_32 = (uint32_t)(r->program->freed_warm_share * UINT32_MAX),
        .pollution = r->plan->pollution,
        .fixed_addresses = of_memory || r->plan->layout_fixed,
        .syscall_socket = -1,
        .processors = r->plan->processors,
        .snapshot_fd = -1,
        .group_stat_fd = -1,
        .operators = of_time && calls_operators(r),
        .operator_calls = calls_operators(r),
        .virtual_time = pace->virtual_time,
        .real_ns_per_trace_ns = pace->real_ns_per_trace_ns,
        .end_ns = r->program->end_ns,
        .purge_ns = r->plan->purge_ns,
        .purge_at_fork = r->plan->purge_at_fork,
        .scale = pass == HT_PASS_DESCRIBE ? 1 : r->built->side_by_side,
        .repeats = pass == HT_PASS_FLAT && r->repeats ? r->repeats : 1,
        .window_ns = r->plan->window_ns ? r->plan->window_ns : usual_window_ns(r, of_memory),
    };
    if (pass == HT_PASS_FLAT || pass == HT_PASS_TIMED || pass == HT_PASS_MEMORY) job.aging = r->plan->aging;
    for (unsigned i = 0; pass == HT_PASS_DESCRIBE && r->built && i < HT_ODD_CALLS_MAX; i++)
        job.odd[i] = r->built->odd[i].first;
    return job;
}

struct ht_job ht_runner_job_at_once(const struct ht_runner *r, enum ht_pass pass) {
    struct ht_job job = ht_runner_job(r, pass);
    if (job.real_ns_per_trace_ns > 0) {
        job.real_ns_per_trace_ns = 0;
        job.virtual_time = 1;
    }
    return job;
}

static bool knobs_heeded(const struct ht_choice *choice, char *problem, size_t room) {
    char mismatch[HT_KNOB_PROBLEM_BYTES];
    if (choice->knobs.count && choice->kind != choice->knobs.kind) {
        snprintf(problem, room, "unknown knobs: it is not %s, though its file name says so",
                 choice->knobs.kind->name);
        return false;
    }
    if (ht_knob_choices_heeded(&choice->knobs, choice->version, choice->reported, mismatch)) return true;
    snprintf(problem, room, "%s", mismatch);
    return false;
}

// What the user added is what it was taken for; one that does not report its version is what its package said.
static bool is_as_added(struct ht_choice *choice, char *problem, size_t room) {
    const char *at = strchr(choice->added, '@'), *added = at ? at + 1 : "";
    size_t length = strlen(choice->version);
    bool same =
        !strncmp(added, choice->version, length) && !(added[length] && strchr("0123456789.", added[length]));
    if (!length) snprintf(choice->version, sizeof choice->version, "%s", added);
    if (!*added || same) return true;
    snprintf(problem, room, "expected version %s, found one that reports %.100s", added, choice->version);
    return false;
}

static bool describe(struct ht_runner *r, struct ht_choice *choice, char *problem, size_t room) {
    struct ht_job job = ht_runner_job(r, HT_PASS_DESCRIBE);
    if (!ht_child_run(&r->channel, choice, &job, -1, &r->random, problem, room)) return false;
    const struct ht_outcome *outcome = &r->channel.exchange->outcome;
    char *path = realpath(outcome->path, NULL);
    snprintf(choice->path, sizeof choice->path, "%s", path ? path : outcome->path);
    snprintf(choice->version, sizeof choice->version, "%s", outcome->version);
    choice->skips_queries = outcome->skips_queries;
    choice->lacks_operators = outcome->lacks_operators;
    choice->refused = outcome->refused;
    snprintf(choice->build_id, sizeof choice->build_id, "%s", outcome->build_id);
    free(path);
    choice->kind = ht_allocator_named(outcome->kind);
    memcpy(choice->reported, r->channel.exchange->figures.knobs, sizeof choice->reported);
    return is_as_added(choice, problem, room) && knobs_heeded(choice, problem, room);
}

// Which kind a library is of may only be known once it runs.
bool ht_runner_describe(struct ht_runner *r, struct ht_choice *choice, char *problem, size_t room) {
    const struct ht_allocator *before = choice->kind;
    if (r->settings) ht_choice_take_settings(choice, r->settings);
    if (!describe(r, choice, problem, room)) return false;
    if (!r->settings || choice->kind == before || !ht_choice_take_settings(choice, r->settings)) return true;
    return describe(r, choice, problem, room);
}

json_t *ht_runner_keep(struct ht_runner *r, struct ht_run_result *line) {
    bool kept = r->results_fd >= 0 && !ht_child_interrupted() && !r->channel.cut_short;
    line->plan = r->plan;
    line->built = r->built;
    line->machine = &r->machine;
    line->thp = r->huge_pages.mode;
    line->trace_sha256 = r->trace_sha256;
    line->program = r->program;
    line->own_bytes = r->own_bytes;
    json_t *made = ht_results_line(line, kept || r->curves);
    if (kept && ht_results_line_write(r->results_fd, made) && !r->results_failed) {
        ht_progress_end(&r->progress);
        ht_print(stderr, "heaptape replay: %s: a result cannot be written: %s\n", r->plan->results_path,
                 strerror(errno));
        r->results_failed = true;
    }
    if (!r->curves) json_object_del(made, "timeline");
    return made;
}

void ht_runner_free(struct ht_runner *r) {
    json_decref(r->counts);
    free(r->null_rss_bytes);
    ht_choice_figures_free(r->of_choices, r->plan->choices.count);
    ht_child_channel_close(&r->channel);
}
