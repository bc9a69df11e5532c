// SPDX-License-Identifier: Apache-2.0
#include "experiment_state.h"

#include "ops.h"

static const uint64_t time_window_ns = 10000000, memory_window_ns = 1000000;
// An extension has as many windows at most, unless they would be longer than that: threads wait for each other at the end of
// each, which would take longer than all calls. RSS of a steady load is the same, unless threads live so briefly that ones which
// never met would be there together.
static const uint64_t extended_windows = 20000, extended_window_ns_max = 100000000;

static uint64_t usual_window_ns(const struct ht_experiment *x, bool of_memory) {
    uint64_t usual_ns = of_memory ? memory_window_ns : time_window_ns;
    const struct ht_extended_part *extended = &x->program->extended;
    if (!extended->to_ns) return usual_ns;
    uint64_t extended_ns = extended->to_ns / extended_windows, lives_ns = extended->thread_lives_ns;
    if (extended_ns > extended_window_ns_max) extended_ns = extended_window_ns_max;
    if (lives_ns && extended_ns > lives_ns) extended_ns = lives_ns;
    return extended_ns > usual_ns ? extended_ns : usual_ns;
}

static bool calls_operators(const struct ht_experiment *x) {
    uint64_t calls = 0;
    for (unsigned i = HT_NEW; x->built && i <= HT_DELETE_ARRAY_SIZED_ALIGNED; i++)
        calls += x->built->calls[i];
    return calls;
}

struct ht_job ht_experiment_job(const struct ht_experiment *x, enum ht_pass pass) {
    bool of_memory = pass == HT_PASS_MEMORY || pass == HT_PASS_ACCOUNT || pass == HT_PASS_SNAPSHOT ||
                     pass == HT_PASS_LIMIT;
    // What the operators do besides malloc and free makes no difference to memory.
    bool of_time = pass == HT_PASS_DESCRIBE || pass == HT_PASS_FLAT || pass == HT_PASS_TIMED;
    const struct ht_pace *pace = of_memory ? &x->plan->paces.memory : &x->plan->paces.time;
    struct ht_job job = {
        .pass = pass,
        .touch = x->plan->touch,
        .touch_free = x->plan->touch_free,
        .warm_of_2_32 = (uint32_t)(x->program->freed_warm_share * UINT32_MAX),
        .pollution = x->plan->pollution,
        .fixed_addresses = of_memory || x->plan->layout_fixed,
        .syscall_socket = -1,
        .processors = x->plan->processors,
        .snapshot_fd = -1,
        .group_stat_fd = -1,
        .operators = of_time && calls_operators(x),
        .operator_calls = calls_operators(x),
        .virtual_time = pace->virtual_time,
        .real_ns_per_trace_ns = pace->real_ns_per_trace_ns,
        .end_ns = x->program->end_ns,
        .purge_ns = x->plan->purge_ns,
        .scale = pass == HT_PASS_DESCRIBE ? 1 : x->built->side_by_side,
        .repeats = pass == HT_PASS_FLAT && x->repeats ? x->repeats : 1,
        .window_ns = x->plan->window_ns ? x->plan->window_ns : usual_window_ns(x, of_memory),
    };
    if (pass == HT_PASS_FLAT || pass == HT_PASS_TIMED || pass == HT_PASS_MEMORY) job.aging = x->plan->aging;
    for (unsigned i = 0; pass == HT_PASS_DESCRIBE && x->built && i < HT_ODD_CALLS_MAX; i++)
        job.odd[i] = x->built->odd[i].first;
    return job;
}

struct ht_job ht_experiment_job_at_once(const struct ht_experiment *x, enum ht_pass pass) {
    struct ht_job job = ht_experiment_job(x, pass);
    if (job.real_ns_per_trace_ns > 0) {
        job.real_ns_per_trace_ns = 0;
        job.virtual_time = 1;
    }
    return job;
}
