// SPDX-License-Identifier: Apache-2.0
#include "group_result.h"

#include <math.h>
#include <stdlib.h>

#include "json_values.h"
#include "results_line.h"

static uint64_t without(uint64_t bytes, uint64_t harness_bytes) {
    return bytes > harness_bytes ? bytes - harness_bytes : 0;
}

// What is not malloc's is known at moments. Between two it is taken to have grown evenly.
static double own_bytes_at(const struct ht_group_program *program, uint64_t time_ns) {
    const struct ht_group_moment *before = NULL;
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        const struct ht_group_moment *moment = ht_group_moment(program->trace, i);
        double own = (double)moment->own_bytes;
        if (time_ns <= moment->time_ns && !before) return own;
        if (time_ns <= moment->time_ns) {
            double part = (double)(time_ns - before->time_ns) / (double)(moment->time_ns - before->time_ns);
            return (double)before->own_bytes + part * (own - (double)before->own_bytes);
        }
        before = moment;
    }
    return before ? (double)before->own_bytes : 0;
}

double ht_group_bytes(const struct ht_group_result *result, uint32_t meeting) {
    uint64_t heap =
        without(result->meeting[meeting].pss_anon_bytes, result->null_meeting[meeting].pss_anon_bytes);
    return (double)heap + own_bytes_at(result->program, result->program->meeting[meeting].time_ns);
}

double ht_group_peak_bytes(const struct ht_group_result *result) {
    double most = 0;
    for (uint32_t i = 0; i < result->program->meetings; i++) most = fmax(most, ht_group_bytes(result, i));
    return most;
}

static uint32_t meeting_of(const struct ht_group_program *program, uint32_t moment) {
    uint32_t i = program->meetings;
    while (i-- > 0)
        if (program->meeting[i].moment == moment && program->meeting[i].written) return i;
    return program->meetings - 1;
}

// Of the processes that the snapshot has: one that began or ended meanwhile is not in it.
static double bytes_at_moment(const struct ht_group_result *result, uint32_t moment) {
    const struct ht_group_program *program = result->program;
    double sum = (double)ht_group_moment(program->trace, moment)->own_bytes;
    for (uint32_t i = 0; i < program->parts; i++) {
        size_t at = (size_t)moment * program->parts + i;
        if (ht_group_presence(program->trace, i, moment)->there)
            sum += (double)without(result->part[at].pss_anon_bytes, result->null_part[at].pss_anon_bytes);
    }
    return sum;
}

double ht_group_end_bytes(const struct ht_group_result *result) {
    uint32_t moments = ht_group_moments(result->program->trace);
    return moments ? bytes_at_moment(result, moments - 1)
                   : ht_group_bytes(result, result->program->meetings - 1);
}

uint32_t ht_group_highest_moment(const struct ht_group_program *program) {
    uint32_t highest = HT_GROUP_NO_MOMENT;
    uint64_t most = 0;
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        uint64_t bytes = ht_group_moment(program->trace, i)->anonymous_bytes;
        if (bytes > most) highest = i;
        if (bytes > most) most = bytes;
    }
    return highest;
}

double ht_group_moment_bytes(const struct ht_group_result *result) {
    uint32_t moment = ht_group_highest_moment(result->program);
    return moment == HT_GROUP_NO_MOMENT ? NAN : bytes_at_moment(result, moment);
}

// ---- as JSON ----

static json_t *trace_json(const struct ht_runner *r, const struct ht_group_program *program) {
    json_t *trace = json_object();
    char *absolute = realpath(r->plan->trace_path, NULL);
    json_object_set_new(trace, "path", json_known_text(absolute ? absolute : r->plan->trace_path));
    free(absolute);
    json_object_set_new(trace, "sha256", json_known_text(r->trace_sha256));
    json_set_number(trace, "processes", program->parts);
    json_object_set_new(trace, "recorded_allocator",
                        json_pack("{s:o, s:o}", "name", json_known_text(r->program->allocator), "version",
                                  json_known_text(r->program->allocator_version)));
    return trace;
}

static json_t *processes_json(const struct ht_group_result *result, uint32_t moment) {
    const struct ht_group_program *program = result->program;
    json_t *list = json_array();
    for (uint32_t i = 0; i < program->parts; i++) {
        const struct ht_group_process *process = ht_group_process(program->trace, i);
        const struct ht_group_presence *presence = ht_group_presence(program->trace, i, moment);
        size_t at = (size_t)moment * program->parts + i;
        if (!presence->there) continue;
        json_t *one = json_object();
        json_set_number(one, "pid", process->pid);
        json_set_known_text(one, "name", process->name);
        json_set_number(one, "rss_anon_bytes",
                        without(result->part[at].rss_anon_bytes, result->null_part[at].rss_anon_bytes) +
                            presence->own_bytes);
        json_set_number(one, "pss_anon_bytes",
                        without(result->part[at].pss_anon_bytes, result->null_part[at].pss_anon_bytes) +
                            presence->own_bytes);
        json_set_number(one, "recorded_rss_anon_bytes", presence->rss_anon_bytes);
        json_set_number(one, "recorded_pss_anon_bytes", presence->pss_anon_bytes);
        json_array_append_new(list, one);
    }
    return list;
}

// At each moment: what was recorded, what was replayed, and what the program's writes alone have copied since the moment before.
static json_t *moments_json(const struct ht_group_result *result) {
    const struct ht_group_program *program = result->program;
    json_t *list = json_array();
    for (uint32_t i = 0; i < ht_group_moments(program->trace); i++) {
        const struct ht_group_moment *moment = ht_group_moment(program->trace, i);
        uint32_t written = meeting_of(program, i);
        json_t *one = json_object();
        double bytes = ht_group_bytes(result, written),
               before = written ? ht_group_bytes(result, written - 1) : 0;
        json_set_number(one, "time_ns", moment->time_ns);
        json_object_set_new(one, "reason", json_string(moment->reason == HT_SNAPSHOT_PEAK ? "peak" : "last"));
        json_set_whole(one, "bytes", bytes_at_moment(result, i));
        json_set_whole(one, "copied_by_program_bytes", bytes > before ? bytes - before : 0);
        json_set_number(one, "own_bytes", moment->own_bytes);
        json_set_number(one, "recorded_bytes", moment->anonymous_bytes);
        json_set_number(
            one, "rss_anon_sum_bytes",
            without(result->meeting[written].rss_anon_bytes, result->null_meeting[written].rss_anon_bytes));
        json_set_number(one, "recorded_rss_anon_sum_bytes", moment->rss_anon_sum_bytes);
        json_object_set_new(one, "processes", processes_json(result, i));
        json_array_append_new(list, one);
    }
    return list;
}

static json_t *timeline_json(const struct ht_group_result *result) {
    json_t *time = json_array(), *bytes = json_array();
    for (uint32_t i = 0; i < result->program->meetings; i++) {
        json_array_append_new(time, json_number(result->program->meeting[i].time_ns));
        json_array_append_new(bytes, json_whole(ht_group_bytes(result, i)));
    }
    return json_pack("{s:o, s:o}", "time_ns", time, "group_bytes", bytes);
}

json_t *ht_group_result_json(struct ht_runner *r, const struct ht_group_result *result) {
    const struct ht_plan *plan = r->plan;
    json_t *run = ht_results_head(r->plan, result->choice, trace_json(r, result->program), "group",
                                  result->round, result->seed, plan->paces.memory.name);
    bool done = !result->problem;
    bool purges = plan->purge_at_fork && result->choice->kind && result->choice->kind->purge;
    json_object_set_new(run, "purged_at_fork", json_boolean(purges));
    json_object_set_new(run, "drawn", json_string(ht_drawn_names[result->drawn]));
    json_set_number(run, "parts_written", result->parts_written);
    json_set_whole(run, "group_peak_bytes", done ? ht_group_peak_bytes(result) : NAN);
    json_set_whole(run, "group_end_bytes", done ? ht_group_end_bytes(result) : NAN);
    json_set_whole(run, "group_moment_bytes", done ? ht_group_moment_bytes(result) : NAN);
    json_object_set_new(run, "moments", done ? moments_json(result) : json_null());
    json_object_set_new(run, "timeline", done ? timeline_json(result) : json_null());
    json_set_text(run, "problem", result->problem);
    json_set_number(run, "failures", done ? 0 : 1);
    ht_results_machine(run, &r->machine, result->started_realtime_ns);
    return run;
}
