// SPDX-License-Identifier: Apache-2.0
// A process's merge stops at the moments of the snapshots, and at forks that left no record.
#include "group_member.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "all_bytes.h"
#include "convert_raw.h"
#include "group_writer.h"
#include "inherited_pages.h"
#include "live_blocks.h"
#include "merge_inside.h"
#include "output_file.h"
#include "print.h"
#include "raw_state.h"
#include "sorted.h"
#include "trace_json.h"

// A fork's record is met by then, if there is one: stamps of two cores are no further apart.
static const uint64_t FORK_SLACK_NS = 1000000;

struct stop {
    uint64_t stamp;
    bool is_fork;
    uint32_t number;  // of the moment, or of the child
};

struct member {
    struct group_run *run;
    uint32_t process;
    struct ht_raw_log log;
    struct merge *merge;
    struct ht_trace_writer *writer;
    int fd;  // of its trace
    struct live_blocks inherited;
    struct inherited_pages pages;
    struct stop *stop;
    size_t stops;
    uint32_t *fork_input;                  // of each child, by process: who forked it
    uint64_t stored_event, stored_offset;  // the last blocks that were stored
    bool has_stored;
    struct ht_error fork_error;
};

static bool is_child(const struct member *member, uint32_t process) {
    const struct ht_group_process *of = &member->run->content.process[process];
    return of->parent == member->process;
}

// ---- forks ----

static void orphan(struct member *member, uint32_t child, const char *why) {
    struct group_run *run = member->run;
    run->content.process[child].parent = HT_GROUP_NO_PARENT;
    ht_print(stderr,
             "heaptape convert: warning: %s: what it inherited from process %" PRIu32
             " is not known (%s): it is taken as a process that inherited nothing\n",
             run->logs.log[child].path, member->log.header.pid, why);
}

// Returns what is wrong with what the child would get, or NULL.
static const char *why_unknown(const struct member *member) {
    const struct merge *m = member->merge;
    const struct ht_raw_damage damage = streams_damage(&m->streams, false);
    if (damage.places) return "that one's log is damaged before the fork";
    if (m->log->header.sequence && m->heap.totals.foreign_frees) return "that one's recording began late";
    return NULL;
}

// The child has what is live now. False with fork_error.
static bool hand_on(struct member *member, uint32_t child, uint32_t input, uint64_t stamp) {
    struct group_run *run = member->run;
    struct merge *m = member->merge;
    struct ht_group_process *process = &run->content.process[child];
    uint64_t event = ht_trace_next_event(member->writer);
    const char *why = why_unknown(member);
    run->state[child].forked = true;
    if (why) {
        orphan(member, child, why);
        return true;
    }
    process->fork_event = event;
    process->inherited = m->heap.slots.live;
    member->fork_input[child] = input;
    if (!member->has_stored || member->stored_event != event) {
        struct live_blocks blocks;
        if (!merge_live_blocks(m, &blocks)) {
            ht_error_memory(&member->fork_error, m->log->path, "cannot save what a child inherits");
            return false;
        }
        bool whole = blocks.count == m->heap.slots.live;
        member->stored_offset = run->blocks_end;
        bool put = !whole || block_store_put(run->blocks_fd, stamp, &blocks, &run->blocks_end);
        live_blocks_free(&blocks);
        if (!put) ht_error_system(&member->fork_error, m->log->path, "cannot save what a child inherits");
        if (!put) return false;
        if (!whole) orphan(member, child, "several of its blocks lie at one address");
        member->has_stored = whole;
        member->stored_event = event;
    }
    run->state[child].blocks_offset = member->stored_offset;
    return true;
}

static bool note_fork(struct merge *m, uint32_t input, uint64_t stamp) {
    struct member *member = m->context;
    for (uint32_t i = member->process + 1; i < member->run->content.processes; i++)
        if (is_child(member, i) && !member->run->state[i].forked &&
            member->run->logs.log[i].header.fork_stamp == stamp && !hand_on(member, i, input, stamp))
            return false;
    return true;
}

// ---- moments ----

static const struct ht_group_member *member_at(const struct member *member, uint32_t moment) {
    const struct ht_group_snapshot *snapshot = group_snapshot(member->run, moment);
    for (size_t i = 0; i < snapshot->members; i++)
        if (group_logs_process(&member->run->logs, snapshot, &snapshot->member[i]) == member->process)
            return &snapshot->member[i];
    return NULL;
}

static int note_moment(struct member *member, uint32_t moment, struct ht_error *error) {
    struct group_run *run = member->run;
    size_t place = (size_t)member->process * run->content.moments + moment;
    const struct ht_group_member *shown = member_at(member, moment);
    const char *allocator = ht_raw_context(&member->log, "allocator_name");
    bool held = ht_raw_context(&member->log, "linked_allocator") || !allocator || strcmp(allocator, "glibc");
    if (!shown) return 0;
    run->content.presence[place] = (struct ht_group_presence){
        .there = true, .rss_anon_bytes = shown->rss_anon_bytes, .pss_anon_bytes = shown->pss_anon_bytes};
    memcpy(run->content.process[member->process].name, shown->name, sizeof shown->name);
    if (!heap_ranges_find(&run->heap[place], &member->merge->heap, shown, run->content.page_bytes, held))
        return ht_error_memory(error, member->log.path, "cannot tell its heap's pages");
    if (run->content.process[member->process].parent == HT_GROUP_NO_PARENT) return 0;
    uint8_t *states = inherited_pages_states(&member->pages, shown);
    if (!states) return ht_error_memory(error, member->log.path, "cannot tell its heap's pages");
    ht_group_put_page_states(run->writer, member->process, moment, states, member->pages.layout.pages);
    free(states);
    return 0;
}

// What a call has done to pages with inherited blocks.
static void see_call(void *context, const struct merge_observed *observed) {
    struct member *member = context;
    const struct ht_raw_record *record = observed->record;
    const struct open_realloc *old = &member->merge->input[observed->input].realloc;
    switch (record->op) {
    case HT_RAW_LONG:
    case HT_RAW_QUERY:
    case HT_RAW_FREE_NULL:
    case HT_RAW_REALLOC_BEGIN: return;
    case HT_RAW_FREE: inherited_pages_end(&member->pages, record->address); return;
    case HT_RAW_REALLOC_END:
        if (record->failed == HT_FAILED_NULL) return;
        inherited_pages_end(&member->pages, old->address);
        if (!record->failed) inherited_pages_use(&member->pages, record->address, old->size * old->count);
        return;
    default:
        if (!record->failed)
            inherited_pages_use(&member->pages, record->address, record->size * record->count);
    }
}

static void see_unfinished(void *context, uint32_t input) {
    (void)context;
    (void)input;
}

// ---- the merge ----

static uint64_t stamp_of(const struct ht_raw_log *log, uint64_t mono_ns) {
    const struct ht_clock_pair *first = &log->header.first_pair;
    if (mono_ns <= first->mono_ns) return first->stamp;
    return first->stamp + (uint64_t)((double)(mono_ns - first->mono_ns) / ht_raw_ns_per_stamp(log));
}

static void list_stops(struct member *member) {
    const struct group_run *run = member->run;
    uint64_t slack = (uint64_t)((double)FORK_SLACK_NS / ht_raw_ns_per_stamp(&member->log));
    for (uint32_t i = 0; i < run->content.moments; i++)
        member->stop[member->stops++] =
            (struct stop){stamp_of(&member->log, group_snapshot(run, i)->time_ns), false, i};
    for (uint32_t i = member->process + 1; i < run->content.processes; i++) {
        if (!is_child(member, i)) continue;
        const struct ht_raw_header *child = &run->logs.log[i].header;
        member->stop[member->stops++] =
            (struct stop){child->fork_stamp ? child->fork_stamp + slack : child->first_pair.stamp, true, i};
        member->merge->heap.keeps_order = true;
    }
    if (member->stops) qsort(member->stop, member->stops, sizeof *member->stop, ht_by_word);
}

static int merge_up_to(struct member *member, uint64_t stamp, struct ht_error *error) {
    member->merge->horizon = stamp;
    if (!merge_run(member->merge, &member->run->progress, error)) return 0;
    if (member->merge->failed) *error = member->fork_error;
    return -1;
}

static int take_stop(struct member *member, const struct stop *stop, struct ht_error *error) {
    if (merge_up_to(member, stop->stamp, error)) return -1;
    if (!stop->is_fork) return note_moment(member, stop->number, error);
    if (member->run->state[stop->number].forked || hand_on(member, stop->number, NO_THREAD, stop->stamp))
        return 0;
    *error = member->fork_error;
    return -1;
}

// A process without any call has inherited all the same.
static int inherit(struct member *member, struct ht_error *error) {
    struct merge *m = member->merge;
    if (m->order_count || !member->inherited.count) return merge_inherit(m, &member->inherited, error);
    uint32_t thread = heap_model_add_thread(&m->heap, member->log.header.pid, 0);
    return thread != UINT32_MAX && live_blocks_give(&member->inherited, &m->heap, thread)
               ? 0
               : ht_error_memory(error, member->log.path, "cannot merge");
}

static int run_merge(struct member *member, struct ht_error *error) {
    const struct merge_observer observer = {see_call, see_unfinished, member};
    struct merge *m = member->merge;
    bool is_forked = member->run->content.process[member->process].parent != HT_GROUP_NO_PARENT;
    m->at_fork = note_fork;
    m->context = member;
    list_stops(member);
    if (is_forked && member->run->content.moments) m->observer = &observer;
    int status = inherit(member, error);
    for (size_t i = 0; i < member->stops && !status; i++) status = take_stop(member, &member->stop[i], error);
    if (!status) status = merge_up_to(member, UINT64_MAX, error);
    if (!status && m->heap.totals.inherited_objects != member->inherited.count)
        status = ht_error_input(error, member->log.path, HT_RAW_HEADER_BYTES,
                                "expected %zu inherited blocks, found %" PRIu64, member->inherited.count,
                                m->heap.totals.inherited_objects);
    m->observer = NULL;
    return status;
}

// Where no snapshot has shown it: that of the executable, as the kernel cuts it.
static void guess_name(const struct member *member, char name[17]) {
    const char *path = ht_raw_context(&member->log, "executable"), *slash = path ? strrchr(path, '/') : NULL;
    enum { COMM_CHARACTERS = 15 };
    if (!*name && path) snprintf(name, COMM_CHARACTERS + 1, "%s", slash ? slash + 1 : path);
}

// The trace is complete: what is known of its process now.
static void note_end(struct member *member, const struct merge_result *result) {
    struct group_run *run = member->run;
    struct ht_group_process *process = &run->content.process[member->process];
    const struct ht_raw_header *header = &member->log.header;
    uint64_t until_ns = process->start_ns + result->totals.duration_ns;
    for (unsigned i = 0; i < 2; i++)
        if (header->last_pair[i].mono_ns > header->first_pair.mono_ns) {
            uint64_t last_ns = process->start_ns + header->last_pair[i].mono_ns - header->first_pair.mono_ns;
            if (last_ns > until_ns) until_ns = last_ns;
        }
    // A process that was killed says nothing of its end.
    for (uint32_t i = 0; i < run->content.moments; i++)
        if (run->content.presence[(size_t)member->process * run->content.moments + i].there &&
            run->content.moment[i].time_ns > until_ns)
            until_ns = run->content.moment[i].time_ns;
    process->end_ns = until_ns;
    run->state[member->process].exited = header->state == HT_RAW_EXITED;
    guess_name(member, process->name);
    run->events += result->totals.records;
    run->calls += result->totals.events;
    for (uint32_t i = member->process + 1; i < run->content.processes; i++) {
        if (!is_child(member, i)) continue;
        uint32_t input = member->fork_input[i];
        run->content.process[i].fork_thread =
            input == NO_THREAD ? UINT32_MAX : member->merge->input[input].thread;
    }
}

static int convert(struct member *member, struct ht_error *error) {
    struct merge_result result;
    uint64_t file_bytes;
    trace_json_put_context(member->writer, trace_json_context(&member->log));
    member->merge = merge_begin(&member->log, member->writer, error);
    int status = member->merge ? run_merge(member, error) : -1;
    // Holes read as damage: only now is it known whether any was read.
    if (!status) status = consumed_log_check(&member->log, error);
    if (!status) merge_results(member->merge, &result);
    if (!status) note_end(member, &result);
    if (member->merge && status) free(member->merge->heap.threads);
    if (member->merge) merge_end(member->merge);
    if (status) ht_trace_abandon(member->writer);
    else
        status = convert_finish(member->run->request, &member->log, member->writer, &result, 0, &file_bytes,
                                error);
    return status;
}

// ---- what it inherited ----

static int read_inherited(struct member *member, struct ht_error *error) {
    struct group_run *run = member->run;
    const struct group_process_state *state = &run->state[member->process];
    struct block_entry entry;
    if (!ht_read_at(run->blocks_fd, &entry, sizeof entry, state->blocks_offset) ||
        !block_store_read(run->blocks_fd, &entry, state->blocks_offset + sizeof entry, &member->inherited))
        return ht_error_memory(error, member->log.path, "cannot read what it inherited");
    const char *wrong = inherited_pages_make(&member->pages, &member->inherited, run->content.page_bytes);
    if (wrong) return ht_error_input(error, member->log.path, 32, "%s", wrong);
    run->content.layout_pages[member->process] = member->pages.layout.pages;
    return 0;
}

static int begin(struct member *member, struct ht_error *error) {
    struct group_run *run = member->run;
    member->stop = calloc(run->content.moments + run->content.processes + 1, sizeof *member->stop);
    member->fork_input = malloc((run->content.processes + 1) * sizeof *member->fork_input);
    member->fd = temporary_file_open();
    if (!member->stop || !member->fork_input || member->fd < 0)
        return ht_error_system(error, member->log.path, "cannot make a temporary file");
    memset(member->fork_input, 0xff, run->content.processes * sizeof *member->fork_input);
    if (run->content.process[member->process].parent != HT_GROUP_NO_PARENT && read_inherited(member, error))
        return -1;
    member->writer = ht_trace_create_in(member->fd, member->log.path, run->request->time_unit_ns,
                                        run->request->level, error);
    return member->writer ? 0 : -1;
}

static int put(struct member *member, struct ht_error *error) {
    struct group_run *run = member->run;
    if (ht_group_put_member(run->writer, member->process, member->fd, error)) return -1;
    return ht_group_put_layout(run->writer, member->process, &member->pages.layout)
               ? ht_error_memory(error, member->log.path, "cannot keep the places of what it inherited")
               : 0;
}

int group_member_convert(struct group_run *run, uint32_t process, struct ht_error *error) {
    struct member member = {.run = run, .process = process, .fd = -1};
    if (ht_raw_open(&member.log, run->logs.log[process].path, error)) return -1;
    convert_warn_about(&member.log);
    int status = begin(&member, error);
    if (!status) status = convert(&member, error);
    if (!status) status = put(&member, error);
    if (member.fd >= 0) close(member.fd);
    live_blocks_free(&member.inherited);
    inherited_pages_free(&member.pages);
    free(member.stop);
    free(member.fork_input);
    ht_raw_close(&member.log);
    return status;
}
