// SPDX-License-Identifier: Apache-2.0
#include "group_convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "convert_raw.h"
#include "convert_request.h"
#include "group_member.h"
#include "group_writer.h"
#include "merge_result.h"
#include "now.h"
#include "output_file.h"
#include "print.h"
#include "trace_json.h"

// ---- progress ----

struct shown {
    struct ht_progress progress;
    const struct group_run *run;
};

static void show_progress(void *context, uint64_t done, uint64_t total, uint64_t events) {
    struct shown *shown = context;
    (void)total;
    convert_show_progress(&shown->progress, shown->run->bytes_done + done, shown->run->bytes_total,
                          shown->run->events + events);
}

// ---- moments ----

// The process that shows where a member's heap lies: itself, or the nearest one above it that has a log.
static uint32_t heir_of(const struct group_run *run, const struct ht_group_snapshot *snapshot,
                        size_t member) {
    for (size_t tries = 0; tries <= snapshot->members; tries++) {
        uint32_t process = group_logs_process(&run->logs, snapshot, &snapshot->member[member]),
                 parent = UINT32_MAX;
        if (process != UINT32_MAX || snapshot->member[member].executed) return process;
        for (size_t i = 0; i < snapshot->members; i++)
            if (snapshot->member[i].pid == snapshot->member[member].parent_pid) parent = (uint32_t)i;
        if (parent == UINT32_MAX) break;
        member = parent;
    }
    return UINT32_MAX;
}

static uint32_t tree_of(const struct group_run *run, uint32_t process) {
    if (process == UINT32_MAX) return run->content.processes;
    while (run->content.process[process].parent != HT_GROUP_NO_PARENT)
        process = run->content.process[process].parent;
    return process;
}

static void put_own(struct group_run *run, uint32_t moment, const uint64_t *own_bytes) {
    const struct ht_group_snapshot *snapshot = group_snapshot(run, moment);
    for (size_t i = 0; i < snapshot->members; i++) {
        uint32_t process = group_logs_process(&run->logs, snapshot, &snapshot->member[i]);
        if (process != UINT32_MAX)
            run->content.presence[(size_t)process * run->content.moments + moment].own_bytes = own_bytes[i];
    }
}

// A process that made no call has no log.
static void warn_of_logless(const struct group_run *run) {
    char count[HT_NUMBER_OF_BYTES];
    size_t most = 0;
    for (uint32_t i = 0; i < run->content.moments; i++) {
        const struct ht_group_snapshot *snapshot = group_snapshot(run, i);
        size_t logless = 0;
        for (size_t k = 0; k < snapshot->members; k++)
            logless += group_logs_process(&run->logs, snapshot, &snapshot->member[k]) == UINT32_MAX;
        if (logless > most) most = logless;
    }
    if (most)
        ht_print(
            stderr,
            "heaptape convert: warning: %s: a snapshot has %s without a log: its memory is in the sums, but it "
            "is not in the trace\n",
            run->request->input, ht_number_of(count, most, "process"));
}

// Once all processes have been converted.
static bool count_own(struct group_run *run, uint32_t moment) {
    const struct ht_group_snapshot *snapshot = group_snapshot(run, moment);
    struct own_pages *own = own_pages_begin(run->content.page_bytes, snapshot->members);
    uint64_t *of_member = calloc(snapshot->members + 1, sizeof *of_member);
    bool made = own && of_member;
    for (size_t i = 0; i < snapshot->members && made; i++) {
        uint32_t process = heir_of(run, snapshot, i);
        const struct heap_ranges *ranges =
            process == UINT32_MAX ? NULL : &run->heap[(size_t)process * run->content.moments + moment];
        made = own_pages_add(own, i, tree_of(run, process), &snapshot->member[i], ranges);
    }
    if (own && of_member) made &= own_pages_end(own, &run->content.moment[moment].own_bytes, of_member);
    if (made) put_own(run, moment, of_member);
    free(of_member);
    return made;
}

static void sum_moment(struct group_run *run, uint32_t moment) {
    const struct ht_group_snapshot *snapshot = group_snapshot(run, moment);
    struct ht_group_moment *sum = &run->content.moment[moment];
    uint64_t begin_ns = run->logs.log[0].header.first_pair.mono_ns;
    sum->time_ns = snapshot->time_ns > begin_ns ? snapshot->time_ns - begin_ns : 0;
    sum->reason = snapshot->reason;
    for (size_t i = 0; i < snapshot->members; i++) {
        const struct ht_group_member *member = &snapshot->member[i];
        sum->anonymous_bytes += member->pss_anon_bytes;
        sum->rss_anon_sum_bytes += member->rss_anon_bytes;
        sum->swap_bytes += member->swap_bytes;
        sum->ksm_bytes += member->ksm_bytes;
        sum->huge_bytes += member->huge_bytes;
    }
}

// ---- all of it ----

static int no_memory(const struct group_run *run, struct ht_error *error) {
    return ht_error_memory(error, run->request->input, "cannot convert");
}

// What the logs' headers say of the processes.
static void take_headers(struct group_run *run) {
    uint64_t begin_ns = run->logs.log[0].header.first_pair.mono_ns;
    run->content.page_bytes = run->logs.log[0].header.page_bytes;
    for (uint32_t i = 0; i < run->content.processes; i++) {
        const struct group_log *log = &run->logs.log[i];
        run->content.process[i] =
            (struct ht_group_process){.pid = log->header.pid,
                                      .parent = log->parent,
                                      .start_ns = log->header.first_pair.mono_ns - begin_ns,
                                      .fork_thread = UINT32_MAX};
        run->bytes_total += log->header.chunks_end;
    }
}

static int check_pages(const struct group_run *run, struct ht_error *error) {
    uint32_t page_bytes = run->content.page_bytes;
    if (page_bytes < 512 || page_bytes > HT_GROUP_PAGE_BYTES_MAX || page_bytes & (page_bytes - 1) ||
        (run->logs.has_snapshots && run->logs.snapshots.page_bytes != page_bytes))
        return ht_error_input(error, run->logs.log[0].path, 20,
                              "expected the page size of the group's snapshots, found %" PRIu32, page_bytes);
    return 0;
}

static int begin(struct group_run *run, struct ht_error *error) {
    if (group_logs_find(&run->logs, run->request->input, error)) return -1;
    uint32_t processes = (uint32_t)run->logs.count, moments = (uint32_t)run->logs.snapshots.count;
    if (!ht_group_content_make(&run->content, processes, moments)) return no_memory(run, error);
    run->state = calloc(processes, sizeof *run->state);
    run->heap = calloc((size_t)processes * moments + 1, sizeof *run->heap);
    if (!run->state || !run->heap) return no_memory(run, error);
    take_headers(run);
    if (check_pages(run, error)) return -1;
    for (uint32_t i = 0; i < moments; i++) sum_moment(run, i);
    run->blocks_fd = temporary_file_open();
    if (run->blocks_fd < 0)
        return ht_error_system(error, run->request->input, "cannot make a temporary file");
    run->writer =
        ht_group_create(run->request->output, run->request->time_unit_ns, run->request->level, error);
    return run->writer ? 0 : -1;
}

static json_t *context_of(const struct group_run *run, struct ht_error *error) {
    struct ht_raw_log log;
    if (ht_raw_open(&log, run->logs.log[0].path, error)) return NULL;
    json_t *context = trace_json_context(&log);
    ht_raw_close(&log);
    return context;
}

// When the process became another program, whose log has the same pid; 0: it did not.
static uint64_t executed_ns(const struct group_run *run, uint32_t process) {
    const struct ht_group_process *of = &run->content.process[process];
    uint64_t first_ns = 0;
    for (uint32_t i = 0; i < run->content.processes; i++) {
        const struct ht_group_process *other = &run->content.process[i];
        bool later =
            other->pid == of->pid && other->parent == HT_GROUP_NO_PARENT && other->start_ns > of->start_ns;
        if (later && (!first_ns || other->start_ns < first_ns)) first_ns = other->start_ns;
    }
    return first_ns;
}

// A log does not say when its process was killed, or left by _exit: it lived as long as any of them, unless a snapshot shows
// that it had gone.
static void settle_ends(struct group_run *run) {
    uint64_t last_ns = 0;
    for (uint32_t i = 0; i < run->content.processes; i++)
        if (run->content.process[i].end_ns > last_ns) last_ns = run->content.process[i].end_ns;
    // Children first: a process was there until the last of them began, though a snapshot may have missed it.
    for (uint32_t i = run->content.processes; i-- > 0;) {
        struct ht_group_process *process = &run->content.process[i];
        uint64_t until_ns = last_ns;
        if (process->parent != HT_GROUP_NO_PARENT) {
            uint64_t *parent_end_ns = &run->content.process[process->parent].end_ns;
            if (*parent_end_ns < process->start_ns) *parent_end_ns = process->start_ns;
        }
        if (run->state[i].exited) continue;
        uint64_t became_ns = executed_ns(run, i);
        if (became_ns) process->end_ns = became_ns;
        if (became_ns) continue;
        for (uint32_t k = run->content.moments; k-- > 0;) {
            uint64_t at_ns = run->content.moment[k].time_ns;
            bool there = run->content.presence[(size_t)i * run->content.moments + k].there;
            if (there && at_ns > process->end_ns) process->end_ns = at_ns;
            if (there) break;
            if (at_ns > process->end_ns) until_ns = at_ns - 1;
        }
        if (until_ns > process->end_ns) process->end_ns = until_ns;
    }
}

static int convert(struct group_run *run, struct ht_error *error) {
    int status = 0;
    for (uint32_t i = 0; i < run->content.processes && !status; i++) {
        status = group_member_convert(run, i, error);
        run->bytes_done += run->logs.log[i].header.chunks_end;
        if (!status && ht_trace_failed(run->writer)) break;
    }
    for (uint32_t i = 0; i < run->content.moments && !status; i++)
        if (!count_own(run, i)) status = no_memory(run, error);
    if (!status) settle_ends(run);
    return status;
}

static int finish(struct group_run *run, uint64_t *file_bytes, struct ht_error *error) {
    json_t *context = context_of(run, error);
    struct ht_trace_writer *writer = run->writer;
    if (!context) return -1;
    run->writer = NULL;
    return ht_group_finish(writer, context, &run->content, file_bytes, error);
}

static void say_result(const struct group_run *run, uint64_t file_bytes, double seconds) {
    char processes[HT_NUMBER_OF_BYTES], events[HT_NUMBER_OF_BYTES], moments[HT_NUMBER_OF_BYTES], size[32],
        most[32];
    uint64_t peak_bytes = 0;
    for (uint32_t i = 0; i < run->content.moments; i++)
        if (run->content.moment[i].anonymous_bytes > peak_bytes)
            peak_bytes = run->content.moment[i].anonymous_bytes;
    ht_print(stderr, "%s: %s, %s, %s (%.2f B/event) in %.1f s; %s", run->request->output,
             ht_number_of(processes, run->content.processes, "process"),
             ht_number_of(events, run->calls, "event"), ht_bytes(size, (double)file_bytes),
             run->calls ? (double)file_bytes / (double)run->calls : 0.0, seconds,
             ht_number_of(moments, run->content.moments, "snapshot"));
    if (run->content.moments)
        ht_print(stderr, ", up to %s of anonymous memory", ht_bytes(most, (double)peak_bytes));
    ht_print(stderr, "\nnext: heaptape info %s\n", run->request->output);
}

static void free_run(struct group_run *run) {
    size_t heaps = (size_t)run->content.processes * run->content.moments;
    for (size_t i = 0; i < heaps && run->heap; i++) heap_ranges_free(&run->heap[i]);
    free(run->heap);
    free(run->state);
    if (run->blocks_fd >= 0) close(run->blocks_fd);
    ht_trace_abandon(run->writer);
    ht_group_content_free(&run->content);
    group_logs_free(&run->logs);
}

int group_convert(const struct convert_request *request, struct ht_error *error) {
    double started_s = ht_now_s();
    struct convert_request of_member = *request;
    uint64_t file_bytes = 0;
    of_member.passing = of_member.of_group = true;
    struct group_run run = {.request = &of_member, .blocks_fd = -1};
    struct shown shown = {.run = &run};
    run.progress = (struct merge_progress){request->quiet ? NULL : show_progress, &shown};
    ht_progress_start(&shown.progress);
    int status = begin(&run, error);
    if (!status && !run.content.moments)
        ht_print(
            stderr,
            "heaptape convert: warning: %s: no snapshots of the group's pages: what it took in all, and which "
            "pages its processes shared, is not known (heaptape record --group takes them)\n",
            request->input);
    if (!status) warn_of_logless(&run);
    if (!status) status = convert(&run, error);
    if (!status) status = finish(&run, &file_bytes, error);
    ht_progress_end(&shown.progress);
    if (!status && !request->quiet) say_result(&run, file_bytes, ht_now_s() - started_s);
    free_run(&run);
    return status;
}
