// SPDX-License-Identifier: Apache-2.0
#include "measured.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator_control.h"
#include "memory_probes.h"
#include "older_libc.h"
#include "page_accounts.h"
#include "peak_watch.h"
#include "replay_engine.h"
#include "replay_feed.h"
#include "replay_window.h"
#include "surroundings.h"
#include "verify_pass.h"

_Noreturn void ht_measured_refuse(struct ht_outcome *outcome, const char *what) {
    snprintf(outcome->message, sizeof outcome->message, "%s: %s", what, strerror(errno));
    outcome->state = HT_OUTCOME_REFUSED;
    _exit(1);
}

// Zeroed memory that is nobody's heap: shared mappings count as RssShmem. Real from the start, so that the
// replay takes no fault for it.
void *ht_shared_table(size_t bytes, struct ht_outcome *outcome) {
    void *table = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) ht_measured_refuse(outcome, "no memory for a table of the replay");
    return table;
}

// What a lane does in a form of which it has no stream.
static struct ht_stream no_stream = {.first_unit = HT_SEGMENT_NONE};

// text: its number, which ends with a comma or the text.
void *ht_map_fd(const char *text, int protection, size_t *bytes) {
    int fd = atoi(text);
    struct statx status;  // stat and fstat are no functions of glibc before 2.33
    if (statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &status)) return NULL;
    *bytes = (size_t)status.stx_size;
    void *map = mmap(NULL, *bytes, protection, MAP_SHARED, fd, 0);
    close(fd);  // so that nobody writes through it by mistake
    return map == MAP_FAILED ? NULL : map;
}

static void fault_in(const void *start, size_t bytes) {
    const volatile char *at = start;
    for (size_t i = 0; i < bytes; i += HT_TOUCH_PAGE_BYTES) (void)at[i];
    if (bytes) (void)at[bytes - 1];
}

ht_lane_run *ht_measured_run_of(uint32_t pass, bool inherited) {
    switch (pass) {
    case HT_PASS_ACCOUNT:
    case HT_PASS_SNAPSHOT: return ht_accounting_run;
    case HT_PASS_VERIFY: return ht_verify_run;
    default: return inherited ? ht_engine_run_before : ht_engine_run;
    }
}

// i: of the streams; the form's last is what is inherited.
void ht_measured_enter_form(struct ht_lane *lane, struct ht_form *form, uint32_t i) {
    lane->form = form;
    lane->stream = i > form->streams ? &no_stream : ht_form_streams(form) + i;
}

// Does the same for a thread.
void ht_measured_enter_thread(struct measured *run, struct ht_lane *lane, struct ht_form *form, uint32_t i) {
    ht_measured_enter_form(lane, form, i < form->streams ? i : UINT32_MAX);
    lane->idle = run->before && !form->streamed && lane->stream->first_unit == HT_SEGMENT_NONE;
}

// i: of the streams, of which the last is what is inherited.
static void prepare_lane(struct measured *run, struct ht_lane *lane, uint32_t i, uint32_t copy) {
    const struct ht_job *job = &run->job;
    struct ht_form *form = run->form;
    lane->table = run->table + (size_t)copy * run->copy_slots;
    lane->dependencies = run->dependencies + (size_t)copy * run->copy_slots;
    lane->page_stride = run->replaying ? 0 : HT_TOUCH_PAGE_BYTES;
    lane->touch = job->touch;
    lane->touch_free = job->touch_free;
    lane->warm_of_2_32 = job->warm_of_2_32;
    lane->known = job->known;
    lane->usable_size = run->server.usable_size;
    lane->operators = &run->operators;
    lane->operator_calls = job->operator_calls;
    lane->pass = job->pass;
    lane->verify = run->verify;
    lane->run = ht_measured_run_of(job->pass, i == run->streams);
    lane->layout = job->layout;
    lane->silent = copy > 0;
    lane->copies = i < run->streams ? 1 : run->scale;
    lane->copy_slots = run->copy_slots;
    if (i < run->streams) ht_measured_enter_thread(run, lane, form, i);
    else ht_measured_enter_form(lane, form, form->streams);
    lane->rss_bytes = (uint64_t *)((char *)run->exchange + HT_EXCHANGE_RSS_OFFSET);
    lane->untouched_bytes = lane->rss_bytes + form->samples;
    lane->readings = (struct ht_reading *)(lane->untouched_bytes + form->samples);
    lane->statm_fd = run->statm_fd;
    lane->polluter = run->polluter;
    if (job->pass == HT_PASS_MEMORY) {
        lane->residency = &run->residency;
        lane->high_bytes = lane->untouched_bytes;
    }
    if (job->pass == HT_PASS_LIMIT) lane->ballast = &run->ballast;
    if (run->purging.every_ns) lane->purging = &run->purging;
    lane->group = run->group;
    lane->stop_at = run->stop_at;
    lane->obeyed = &run->obeyed;
    lane->obey = ht_obey;
    if (lane->run == ht_accounting_run) lane->accounting = &run->accounting;
}

static void prepare_verify(struct measured *run, size_t slots) {
    struct ht_exchange *exchange = run->exchange;
    if (run->job.pass != HT_PASS_VERIFY) return;
    if (slots > UINT32_MAX) {
        errno = EOVERFLOW;
        ht_measured_refuse(&exchange->outcome, "too many slots to verify");
    }
    void *memory = ht_shared_table(ht_verify_bytes((uint32_t)slots), &exchange->outcome);
    run->verify = ht_verify_prepare(memory, &run->server, run->table, (uint32_t)slots, run->job.known,
                                    &exchange->findings);
}

bool ht_measured_reads_memory(const struct measured *run) {
    uint32_t pass = run->job.pass;
    return pass == HT_PASS_MEMORY || pass == HT_PASS_SNAPSHOT || pass == HT_PASS_LIMIT;
}

static void prepare_purging(struct measured *run) {
    const struct ht_allocator *kind = run->server.kind;
    bool of_memory = ht_measured_reads_memory(run);
    if (!of_memory || !run->job.purge_ns || !kind || !kind->purge) return;
    run->purging = (struct ht_purging){.server = &run->server,
                                       .every_ns = run->job.purge_ns,
                                       .now_ns = &run->window.low_ns,
                                       .next_ns = run->job.purge_ns};
}

// Copies of the trace share its words, and have slots and threads of their own.
static void prepare_lanes(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    uint32_t streams = run->streams, used = run->form->slots;
    if (run->before && run->before->slots > used) used = run->before->slots;
    // Whole cache lines of both tables, so that copies have none in common.
    run->copy_slots = (used + 15) / 16 * 16;
    size_t slots = (size_t)run->copy_slots * run->scale;
    if (!run->table) run->table = ht_shared_table(slots * sizeof(void *), outcome);
    run->dependencies = ht_shared_table(run->lanes_count > 1 ? slots * sizeof(uint32_t) : 1, outcome);
    run->lanes = ht_shared_table(((size_t)run->lanes_count + 1) * sizeof(struct ht_lane), outcome);
    prepare_verify(run, slots);
    prepare_purging(run);
    ht_obeyed_find(&run->obeyed, &run->server);
    const struct ht_job *job = &run->job;
    if (job->pass == HT_PASS_TIMED && ht_pollutes(&job->pollution)) {
        run->polluter = ht_polluter_make(&job->pollution);
        if (!run->polluter) ht_measured_refuse(outcome, "caches cannot be polluted");
    }
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        prepare_lane(run, &run->lanes[i], i % streams, i / streams);
    }
    prepare_lane(run, &run->lanes[run->lanes_count], streams, 0);
    for (uint32_t i = 0; i <= run->form->streams && !run->form->streamed; i++) {
        ht_feed_fault_in(run->form, ht_form_streams(run->form) + i);
    }
    for (uint32_t i = 0; run->before && i <= run->before->streams; i++) {
        ht_feed_fault_in(run->before, ht_form_streams(run->before) + i);
    }
}

// All that the memory pass does not have is far away.
static void prepare_snapshots(struct measured *run, size_t slots) {
    struct ht_account_slot *accounts = ht_far_table(slots * sizeof *accounts);
    ht_accounting_init(&run->accounting, &run->server, run->table, accounts, run->lanes_count <= 1,
                       run->form->samples, &run->exchange->figures);
    run->accounting.slots_count = slots;
    if (!accounts || !ht_snapshots_init(&run->snapshots, &run->job))
        ht_measured_refuse(&run->exchange->outcome, "no memory for snapshots");
    run->accounting.snapshots = &run->snapshots;
}

const uint64_t *ht_measured_live_slots(const struct measured *run) {
    return (const uint64_t *)(run->lanes[0].readings + run->form->readings);
}

static const uint64_t *own_bytes(const struct measured *run) {
    return ht_measured_live_slots(run) + run->form->slots / 64 + 1;
}

void ht_measured_prepare_figures(struct measured *run) {
    const struct ht_job *job = &run->job;
    struct ht_child_figures *figures = &run->exchange->figures;
    size_t slots = (size_t)run->copy_slots * run->scale;
    if (job->pass == HT_PASS_MEMORY) {
        run->residency = (struct ht_residency_probe){.smaps_fd = ht_residency_open(), .figures = figures};
        ht_probe_init(&run->residency.probe, run->form->samples, HT_RESIDENCIES_MAX);
    } else if (job->pass == HT_PASS_ACCOUNT) {
        ht_accounting_init(&run->accounting, &run->server, run->table,
                           ht_shared_table(slots * sizeof(struct ht_account_slot), &run->exchange->outcome),
                           run->lanes_count <= 1, run->form->samples, figures);
    } else if (job->pass == HT_PASS_SNAPSHOT) {
        prepare_snapshots(run, slots);
    } else if (job->pass == HT_PASS_LIMIT) {
        struct ht_outcome *outcome = &run->exchange->outcome;
        if (!ht_ballast_prepare(&run->ballast, own_bytes(run), run->form->samples, &outcome->samples_reached))
            ht_measured_refuse(outcome, "no memory for the program's own");
    } else if (job->pass == HT_PASS_FLAT) {
        ht_perf_open(&run->perf, figures->perf);
    }
}

// The initial thread is the same for both forms. A form of one stream takes it for that one's.
static uint32_t initial_lane(const struct measured *run) {
    if (run->streams == 1 || !run->before) return run->form->initial_stream;
    if (run->before->initial_stream != HT_NO_STREAM) return run->before->initial_stream;
    return run->form->streams > 1 ? run->form->initial_stream : HT_NO_STREAM;
}

void ht_measured_prepare(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    const struct ht_job *job = &run->job;
    run->statm_fd = ht_rss_open();
    if (run->statm_fd < 0) ht_measured_refuse(outcome, "/proc/self/statm cannot be read");
    run->scale = job->scale > 1 ? job->scale : 1;
    run->repeats = job->pass == HT_PASS_FLAT && job->repeats > 1 && !run->form->streamed ? job->repeats : 1;
    run->streams = run->form->streams;
    if (run->before && run->before->streams > run->streams) run->streams = run->before->streams;
    if ((uint64_t)run->streams * run->scale >= HT_NO_STREAM) {
        errno = EAGAIN;
        ht_measured_refuse(outcome, "too many threads");
    }
    run->lanes_count = run->streams * run->scale;
    fault_in((char *)run->exchange + HT_EXCHANGE_RSS_OFFSET,
             2 * run->form->samples * sizeof(uint64_t) + run->form->readings * sizeof(struct ht_reading));
    if (run->form->streamed) fault_in(run->form, run->form->bytes);
    if (ht_measured_reads_memory(run)) run->watch_stack = ht_shared_table(HT_PEAK_WATCH_STACK_BYTES, outcome);
    prepare_lanes(run);
    struct ht_window_tables tables = {
        .places = ht_shared_table(run->lanes_count * sizeof *tables.places, outcome),
        .sleepers = ht_shared_table(run->lanes_count * sizeof *tables.sleepers, outcome),
        .start_order = ht_shared_table(run->lanes_count * sizeof *tables.start_order, outcome),
        .stacks = ht_shared_table(run->lanes_count * sizeof *tables.stacks, outcome)};
    uint32_t first = initial_lane(run);
    ht_window_init(&run->window, run->lanes, run->lanes_count,
                   first == HT_NO_STREAM ? NULL : &run->lanes[first], job->window_ns, &tables, outcome);
    run->window.replaying = run->replaying;
    run->window.before_background = job->pass == HT_PASS_MEMORY ? ht_peak_watch_read : NULL;
    run->window.forks = run->group != NULL;
    run->window.all_first = job->all_first;
    run->window.by_turns = job->by_turns && !run->form->streamed && run->lanes_count > 1;
    run->window.real_ns_per_trace_ns = run->job.real_ns_per_trace_ns;
}
