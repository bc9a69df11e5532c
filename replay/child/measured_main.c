// SPDX-License-Identifier: Apache-2.0
// The measured child: maps the form and the exchange that the launcher passes it, proves which library has
// its calls, replays, answers in the exchange and ends. It calls no malloc of its own.
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "after_replay.h"
#include "aging.h"
#include "allocator_control.h"
#include "background_cpu.h"
#include "background_threads.h"
#include "ballast.h"
#include "block_spacing.h"
#include "cycle_trap.h"
#include "far_table.h"
#include "group_memory.h"
#include "lane_wait.h"
#include "left_blocks.h"
#include "memory_residency.h"
#include "new_guard.h"
#include "older_libc.h"
#include "operators.h"
#include "peak_watch.h"
#include "perf_counters.h"
#include "polluter.h"
#include "processor_number.h"
#include "processors_asked.h"
#include "raw_clock.h"
#include "ready_threads.h"
#include "replay_accounting.h"
#include "replay_engine.h"
#include "replay_feed.h"
#include "replay_lane.h"
#include "replay_pace.h"
#include "replay_window.h"
#include "rss_probe.h"
#include "server.h"
#include "service_proof.h"
#include "syscall_filter.h"
#include "this_allocator.h"
#include "torture.h"
#include "verify_pass.h"
#include "virtual_clock.h"

struct measured {
    struct ht_server server;
    struct ht_operators operators;
    void (*replaying)(bool yes);  // reports to the null allocator whose calls come; NULL with all others
    struct ht_form *form;
    struct ht_form *before;  // replayed first, unmeasured (form_prelude.h); NULL: nothing
    struct ht_exchange *exchange;
    struct ht_job job;  // as it was asked: what the allocator does to the exchange changes nothing of it
    struct ht_window window;
    struct ht_lane *lanes;  // the streams', for each copy; and one more for what is inherited
    uint32_t streams;       // of either form at most
    uint32_t lanes_count, scale, repeats;
    uint32_t copy_slots;  // from one copy's slots to the next one's
    void **table;
    _Atomic uint32_t *dependencies;
    struct ht_verify *verify;      // NULL but in a pass that checks the allocator
    struct ht_polluter *polluter;  // or NULL
    int statm_fd;
    uint64_t start_ticks, start_ticks_ns;
    uint64_t background_cpu_before_ns;
    struct ht_perf_counters perf;
    struct ht_residency_probe residency;
    struct ht_accounting accounting;
    struct ht_snapshots snapshots;
    struct ht_purging purging;
    struct ht_obeyed obeyed;
    struct ht_ballast ballast;
    void *watch_stack;  // of passes that read RSS: all have the same mappings, because addresses count
};

static _Noreturn void refuse(struct ht_outcome *outcome, const char *what) {
    snprintf(outcome->message, sizeof outcome->message, "%s: %s", what, strerror(errno));
    outcome->state = HT_OUTCOME_REFUSED;
    _exit(1);
}

// Zeroed memory that is nobody's heap: shared mappings count as RssShmem. Real from the start, so that the
// replay takes no fault for it.
static void *shared_table(size_t bytes, struct ht_outcome *outcome) {
    void *table = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) refuse(outcome, "no memory for a table of the replay");
    return table;
}

// The descriptor is not needed any more then, and nobody can write through it by mistake.
// Ends with the process that started us, which ends with the launcher. Under a wrapper both may have ended
// before: then the launcher's lock on the exchange is gone.
static void end_with_launcher(const char *exchange_fd) {
    struct flock lock = {.l_type = F_WRLCK};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!fcntl(atoi(exchange_fd), F_GETLK, &lock) && lock.l_type == F_UNLCK) _exit(1);
}

// What a lane does in a form of which it has no stream.
static struct ht_stream no_stream = {.first_unit = HT_SEGMENT_NONE};

// text: its number, which ends with a comma or the text.
static void *map_fd(const char *text, int protection, size_t *bytes) {
    int fd = atoi(text);
    struct statx status;  // stat and fstat are no functions of glibc before 2.33
    if (statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &status)) return NULL;
    *bytes = (size_t)status.stx_size;
    void *map = mmap(NULL, *bytes, protection, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

static void fault_in(const void *start, size_t bytes) {
    const volatile char *at = start;
    for (size_t i = 0; i < bytes; i += HT_TOUCH_PAGE_BYTES) (void)at[i];
    if (bytes) (void)at[bytes - 1];
}

static ht_lane_run *run_of(uint32_t pass, bool inherited) {
    switch (pass) {
    case HT_PASS_ACCOUNT:
    case HT_PASS_SNAPSHOT: return ht_accounting_run;
    case HT_PASS_VERIFY: return ht_verify_run;
    default: return inherited ? ht_engine_run_before : ht_engine_run;
    }
}

// i: of the streams; the form's last is what is inherited.
static void enter_form(struct ht_lane *lane, struct ht_form *form, uint32_t i) {
    lane->form = form;
    lane->stream = i > form->streams ? &no_stream : ht_form_streams(form) + i;
}

// The same for a thread.
static void enter_thread(struct measured *run, struct ht_lane *lane, struct ht_form *form, uint32_t i) {
    enter_form(lane, form, i < form->streams ? i : UINT32_MAX);
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
    lane->run = run_of(job->pass, i == run->streams);
    lane->layout = job->layout;
    lane->silent = copy > 0;
    lane->copies = i < run->streams ? 1 : run->scale;
    lane->copy_slots = run->copy_slots;
    if (i < run->streams) enter_thread(run, lane, form, i);
    else enter_form(lane, form, form->streams);
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
    lane->obeyed = &run->obeyed;
    lane->obey = ht_obey;
    if (lane->run == ht_accounting_run) lane->accounting = &run->accounting;
}

static void prepare_verify(struct measured *run, size_t slots) {
    struct ht_exchange *exchange = run->exchange;
    if (run->job.pass != HT_PASS_VERIFY) return;
    if (slots > UINT32_MAX) {
        errno = EOVERFLOW;
        refuse(&exchange->outcome, "too many slots to verify");
    }
    void *memory = shared_table(ht_verify_bytes((uint32_t)slots), &exchange->outcome);
    run->verify = ht_verify_prepare(memory, &run->server, run->table, (uint32_t)slots, run->job.known,
                                    &exchange->findings);
}

static bool reads_memory(const struct measured *run) {
    uint32_t pass = run->job.pass;
    return pass == HT_PASS_MEMORY || pass == HT_PASS_SNAPSHOT || pass == HT_PASS_LIMIT;
}

static void prepare_purging(struct measured *run) {
    const struct ht_allocator *kind = run->server.kind;
    bool of_memory = reads_memory(run);
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
    run->table = shared_table(slots * sizeof(void *), outcome);
    run->dependencies = shared_table(run->lanes_count > 1 ? slots * sizeof(uint32_t) : 1, outcome);
    run->lanes = shared_table(((size_t)run->lanes_count + 1) * sizeof(struct ht_lane), outcome);
    prepare_verify(run, slots);
    prepare_purging(run);
    ht_obeyed_find(&run->obeyed, &run->server);
    const struct ht_job *job = &run->job;
    if (job->pass == HT_PASS_TIMED && ht_pollutes(&job->pollution)) {
        run->polluter = ht_polluter_make(&job->pollution);
        if (!run->polluter) refuse(outcome, "caches cannot be polluted");
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
        refuse(&run->exchange->outcome, "no memory for snapshots");
    run->accounting.snapshots = &run->snapshots;
}

static const uint64_t *live_slots(const struct measured *run) {
    return (const uint64_t *)(run->lanes[0].readings + run->form->readings);
}

static const uint64_t *own_bytes(const struct measured *run) {
    return live_slots(run) + run->form->slots / 64 + 1;
}

static void prepare_figures(struct measured *run) {
    const struct ht_job *job = &run->job;
    struct ht_child_figures *figures = &run->exchange->figures;
    size_t slots = (size_t)run->copy_slots * run->scale;
    if (job->pass == HT_PASS_MEMORY) {
        run->residency = (struct ht_residency_probe){.smaps_fd = ht_residency_open(), .figures = figures};
        ht_probe_init(&run->residency.probe, run->form->samples, HT_RESIDENCIES_MAX);
    } else if (job->pass == HT_PASS_ACCOUNT) {
        ht_accounting_init(&run->accounting, &run->server, run->table,
                           shared_table(slots * sizeof(struct ht_account_slot), &run->exchange->outcome),
                           run->lanes_count <= 1, run->form->samples, figures);
    } else if (job->pass == HT_PASS_SNAPSHOT) {
        prepare_snapshots(run, slots);
    } else if (job->pass == HT_PASS_LIMIT) {
        struct ht_outcome *outcome = &run->exchange->outcome;
        if (!ht_ballast_prepare(&run->ballast, own_bytes(run), run->form->samples, &outcome->samples_reached))
            refuse(outcome, "no memory for the program's own");
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

static void prepare(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    const struct ht_job *job = &run->job;
    run->statm_fd = ht_rss_open();
    if (run->statm_fd < 0) refuse(outcome, "/proc/self/statm cannot be read");
    run->scale = job->scale > 1 ? job->scale : 1;
    run->repeats = job->pass == HT_PASS_FLAT && job->repeats > 1 && !run->form->streamed ? job->repeats : 1;
    run->streams = run->form->streams;
    if (run->before && run->before->streams > run->streams) run->streams = run->before->streams;
    if ((uint64_t)run->streams * run->scale >= HT_NO_STREAM) {
        errno = EAGAIN;
        refuse(outcome, "too many threads");
    }
    run->lanes_count = run->streams * run->scale;
    fault_in((char *)run->exchange + HT_EXCHANGE_RSS_OFFSET,
             2 * run->form->samples * sizeof(uint64_t) + run->form->readings * sizeof(struct ht_reading));
    if (run->form->streamed) fault_in(run->form, run->form->bytes);
    if (reads_memory(run)) run->watch_stack = shared_table(HT_PEAK_WATCH_STACK_BYTES, outcome);
    prepare_lanes(run);
    struct ht_window_tables tables = {
        .places = shared_table(run->lanes_count * sizeof *tables.places, outcome),
        .sleepers = shared_table(run->lanes_count * sizeof *tables.sleepers, outcome),
        .start_order = shared_table(run->lanes_count * sizeof *tables.start_order, outcome),
        .stacks = shared_table(run->lanes_count * sizeof *tables.stacks, outcome)};
    uint32_t first = initial_lane(run);
    ht_window_init(&run->window, run->lanes, run->lanes_count,
                   first == HT_NO_STREAM ? NULL : &run->lanes[first], job->window_ns, &tables, outcome);
    run->window.replaying = run->replaying;
    run->window.before_background = job->pass == HT_PASS_MEMORY ? ht_peak_watch_read : NULL;
    run->window.all_first = job->all_first;
    run->window.by_turns = job->by_turns && !run->form->streamed && run->lanes_count > 1;
    run->window.real_ns_per_trace_ns = run->job.real_ns_per_trace_ns;
}

static uint64_t clock_cost_ticks(void) {
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = ht_ticks(), ticks = ht_ticks() - before;
        if (ticks < lowest) lowest = ticks;
    }
    return lowest;
}

static bool is_ours(void *context, pid_t tid) {
    const struct measured *run = context;
    bool ours = tid == getpid();
    for (uint32_t i = 0; i < run->lanes_count && !ours; i++) ours = tid == run->lanes[i].tid;
    return ours;
}

// Of the allocator's own threads, those that have ended included.
static uint64_t background_cpu_ns(struct measured *run, uint32_t *threads) {
    uint32_t ended;
    uint64_t ended_ns = ht_background_ended(&ended);
    uint64_t cpu_ns = ht_background_cpu_ns(is_ours, run, threads);
    *threads += ended;
    return cpu_ns + ended_ns;
}

static void take_background(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    uint64_t cpu_ns = background_cpu_ns(run, &outcome->background_threads);
    if (cpu_ns > run->background_cpu_before_ns) {
        outcome->background_cpu_ns = cpu_ns - run->background_cpu_before_ns;
    }
}

// Before the trace begins, and before anything is counted but RSS.
static void age_heap(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    const struct ht_aging *aging = &run->job.aging;
    if (!aging->blocks) return;
    bool aged =
        run->replaying
            ? ht_age_without_heap(aging)
            : ht_age_heap(aging, shared_table((aging->blocks - aging->kept) * sizeof(void *), outcome));
    if (!aged) refuse(outcome, "no memory for a used heap (--age)");
}

// What a forked process had from the start is part of its footprint, and none of its calls: the blocks are
// allocated before anything is counted but RSS.
static void allocate_inherited(struct measured *run) {
    if (run->replaying) run->replaying(true);
    struct ht_lane *inherited = &run->lanes[run->lanes_count];
    inherited->run(inherited);
    if (run->replaying) run->replaying(false);
}

static void reset_counts(struct ht_lane *lane) {
    lane->cpu_ns = lane->wait_ns = lane->wait_cpu_ns = lane->turns = 0;
    lane->starved_ns = lane->samples_taken = 0;
    lane->has_end_sample = false;
}

// The lanes run through the prelude's streams, without a sample or a reading.
static void run_before(struct measured *run) {
    struct ht_window *window = &run->window;
    struct ht_lane *inherited = &run->lanes[run->lanes_count];
    const double real_ns_per_trace_ns = window->real_ns_per_trace_ns;
    const uint64_t end_ns = run->before->end_ns;
    window->real_ns_per_trace_ns = 0;
    enter_form(inherited, run->before, run->before->streams);
    inherited->silent = true;
    if (run->replaying) run->replaying(true);
    inherited->run(inherited);
    if (run->replaying) run->replaying(false);
    enter_form(inherited, run->form, run->form->streams);
    inherited->silent = false;
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        struct ht_lane *lane = &run->lanes[i];
        enter_thread(run, lane, run->before, i % run->streams);
        lane->silent = true;
        lane->run = run_of(run->job.pass, true);
    }
    ht_window_go_on(window, 0);
    ht_window_run(window);
    if (end_ns > window->low_ns) ht_pace_to_end(window, end_ns);
    if (run->lanes_count > 1)
        memset((void *)run->dependencies, 0,
               (size_t)run->copy_slots * run->scale * sizeof *run->dependencies);
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        struct ht_lane *lane = &run->lanes[i];
        enter_thread(run, lane, run->form, i % run->streams);
        lane->silent = i >= run->streams;
        lane->run = run_of(run->job.pass, false);
        reset_counts(lane);
    }
    run->purging.next_ns += window->low_ns;
    ht_window_go_on(window, window->low_ns);
    window->real_ns_per_trace_ns = real_ns_per_trace_ns;
}

static void add_failures(struct ht_outcome *outcome, const struct ht_lane *lane) {
    if (lane->failures && !outcome->failures) {
        memcpy(outcome->first_failure, lane->first_failure, sizeof outcome->first_failure);
    }
    outcome->failures += lane->failures;
    outcome->known_failures += lane->known_failures;
}

// Without what it waited.
static uint64_t lane_cpu_ns(const struct ht_lane *lane) {
    uint64_t waited_ns = lane->wait_cpu_ns + ht_spun_ns(lane);
    return lane->cpu_ns > waited_ns ? lane->cpu_ns - waited_ns : 0;
}

static void add_lane(struct ht_outcome *outcome, const struct ht_lane *lane) {
    outcome->cpu_ns += lane_cpu_ns(lane);
    outcome->wait_ns += lane->wait_ns + ht_spun_ns(lane);
    outcome->operations += lane->stream->operations;
    outcome->starved_ns += lane->starved_ns;
    outcome->samples_taken += lane->samples_taken;
    add_failures(outcome, lane);
}

static void watch_peaks(struct measured *run) {
    const struct ht_job *job = &run->job;
    struct ht_child_figures *figures = &run->exchange->figures;
    if (job->pass != HT_PASS_MEMORY || job->unwatched) return;
    figures->watch_refusal = ht_peak_watch_start(run->statm_fd, run->watch_stack);
    figures->watched = !figures->watch_refusal;
}

// Only what the replay itself does is counted.
static void begin_figures(struct measured *run) {
    const struct ht_job *job = &run->job;
    struct ht_child_figures *figures = &run->exchange->figures;
    if (job->counted) syscall(SYS_sched_getaffinity, 0, HT_BEGIN_COUNTING, NULL);
    if (!run->before) watch_peaks(run);
    if (job->pass != HT_PASS_ACCOUNT || job->syscall_socket < 0) return;
    figures->filter_refusal = ht_syscall_filter_install(job->syscall_socket);
}

// What the trace leaves.
static void free_left(struct measured *run) {
    if (run->replaying) run->replaying(true);
    for (uint32_t copy = 0; copy < run->scale; copy++) {
        ht_left_blocks_free(live_slots(run), run->form->slots, run->table + (size_t)copy * run->copy_slots);
    }
    if (run->replaying) run->replaying(false);
}

// Asking may allocate: nothing is measured any more.
static void read_arenas(struct measured *run) {
    const struct ht_allocator *kind = run->server.kind;
    struct ht_arena_counts *arenas = &run->exchange->figures.arenas;
    *arenas = (struct ht_arena_counts){HT_FIGURE_UNKNOWN, HT_FIGURE_UNKNOWN};
    if (kind && kind->read_arenas) kind->read_arenas(&run->server, arenas);
}

static void take_figures(struct measured *run) {
    struct ht_child_figures *figures = &run->exchange->figures;
    switch (run->job.pass) {
    case HT_PASS_FLAT: ht_perf_end(&run->perf); break;
    case HT_PASS_MEMORY:
        ht_after_replay(run->residency.smaps_fd, run->statm_fd, figures);
        free_left(run);
        ht_after_freeing(&run->server, run->statm_fd, figures);
        read_arenas(run);
        break;
    case HT_PASS_LIMIT: figures->group_bytes = ht_group_held_bytes(run->job.group_stat_fd); break;
    case HT_PASS_ACCOUNT: ht_accounting_end(&run->accounting); break;
    case HT_PASS_SNAPSHOT: run->exchange->outcome.snapshot_problem = run->accounting.snapshot_problem; break;
    default: break;
    }
}

// The allocator's constructor may have started threads that have yet to come to their first sleep.
static void await_background(struct measured *run) {
    const struct timespec poll_again = {.tv_nsec = 1000000};
    const uint64_t work_ns = 100000000;  // so much of it, and it is not going to sleep
    uint32_t threads;
    uint64_t begun_ns = ht_background_cpu_ns(is_ours, run, &threads);
    for (int waiting_polls = 0; waiting_polls < 100;) {
        uint64_t cpu_ns = ht_background_cpu_ns(is_ours, run, &threads);
        if (threads <= ht_background_sleepers() || cpu_ns - begun_ns > work_ns) return;
        waiting_polls += !ht_another_thread_is_ready();
        syscall(SYS_nanosleep, &poll_again, NULL);
    }
}

// In the passes that take no time the cycle counter too shows trace time.
static void start_virtual_time(struct measured *run) {
    await_background(run);
    ht_virtual_clock_start(&run->window.low_ns);
    ht_background_start(&run->window.low_ns, run->job.real_ns_per_trace_ns);
    if (reads_memory(run)) {
        run->exchange->outcome.cycle_counter_watched = ht_cycle_trap_start();
    }
}

// All lanes have ended: whichever of them came to the last sample left it.
static void take_end_sample(struct measured *run) {
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        struct ht_lane *lane = &run->lanes[i];
        if (!lane->has_end_sample) continue;
        if (lane->accounting) ht_accounting_end_sample(lane);
        else ht_engine_end_sample(lane);
    }
}

// Faults and the clock's time from the first op to the last.
static void run_once(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    struct ht_child_figures *figures = &run->exchange->figures;
    struct rusage before, after;
    if (run->job.pass == HT_PASS_FLAT) ht_perf_begin(&run->perf);
    getrusage(RUSAGE_SELF, &before);
    uint64_t start_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    ht_window_run(&run->window);
    take_end_sample(run);
    ht_pace_to_end(&run->window, run->window.base_ns + run->job.end_ns);
    outcome->wall_ns += ht_raw_clock_ns(CLOCK_MONOTONIC) - start_ns;
    getrusage(RUSAGE_SELF, &after);
    if (run->job.pass == HT_PASS_FLAT) ht_perf_pause(&run->perf);
    outcome->minor_faults += (uint64_t)(after.ru_minflt - before.ru_minflt);
    outcome->major_faults += (uint64_t)(after.ru_majflt - before.ru_majflt);
    figures->voluntary_switches += (uint64_t)(after.ru_nvcsw - before.ru_nvcsw);
    figures->involuntary_switches += (uint64_t)(after.ru_nivcsw - before.ru_nivcsw);
    figures->repeats++;
}

// As if the program were started once more: what it left is freed, what it inherited is allocated again, and
// trace time goes on.
static void begin_again(struct measured *run) {
    uint64_t low_ns = run->window.low_ns, ended_ns = run->window.base_ns + run->job.end_ns;
    ht_window_rewind(&run->window, ended_ns > low_ns ? ended_ns : low_ns);
    free_left(run);
    if (run->lanes_count > 1) {
        memset((void *)run->dependencies, 0,
               (size_t)run->copy_slots * run->scale * sizeof *run->dependencies);
    }
    allocate_inherited(run);
}

static void run_all(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    for (uint32_t i = 0; i < run->repeats; i++) {
        if (i > 0) begin_again(run);
        run_once(run);
        for (uint32_t k = 0; i == 0 && k < run->lanes_count; k++) {
            outcome->first_cpu_ns += lane_cpu_ns(&run->lanes[k]);
        }
    }
    if (outcome->cycle_counter_watched) {
        ht_cycle_trap_end(outcome->cycle_counter_reader, sizeof outcome->cycle_counter_reader);
    }
    outcome->ticks = ht_ticks() - run->start_ticks;
    outcome->ticks_ns = ht_raw_clock_ns(CLOCK_MONOTONIC) - run->start_ticks_ns;
    take_background(run);
    outcome->rss_end_bytes = ht_rss_anon_bytes(run->statm_fd);  // lasting threads still exist
}

static void replay(struct measured *run) {
    const struct ht_job *job = &run->job;
    struct ht_outcome *outcome = &run->exchange->outcome;
    prepare(run);
    outcome->clock_cost_ticks = clock_cost_ticks();
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        run->lanes[i].clock_cost_ticks = outcome->clock_cost_ticks;
    }
    outcome->rss_start_bytes = ht_rss_anon_bytes(run->statm_fd);
    prepare_figures(run);
    run->start_ticks = ht_ticks();
    run->start_ticks_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    if (job->virtual_time) start_virtual_time(run);
    else ht_virtual_clock_renounce();
    age_heap(run);
    if (run->before) {
        watch_peaks(run);  // that of threads is inherited: those of the prelude go on
        run_before(run);
        ht_peak_watch_take(0);
    }
    allocate_inherited(run);
    uint32_t threads;
    run->background_cpu_before_ns = background_cpu_ns(run, &threads);
    run->window.real_start_ns = ht_raw_clock_ns(CLOCK_MONOTONIC) -
                                (uint64_t)((double)run->window.base_ns * run->window.real_ns_per_trace_ns);
    begin_figures(run);
    run_all(run);
    if (run->verify) {
        ht_verify_end(run->verify);
        outcome->known_failures = atomic_load(&run->exchange->findings.known);
    }
    const struct ht_lane *inherited = &run->lanes[run->lanes_count];
    add_failures(outcome, inherited);
    outcome->samples_taken += inherited->samples_taken;
    for (uint32_t i = 0; i < run->lanes_count; i++) add_lane(outcome, &run->lanes[i]);
    outcome->operations *= run->repeats;
    outcome->processors_asked = ht_processors_asked();
    take_figures(run);
}

// The loaded allocator is described first; from then on the launcher knows the kind.
static void find_server(struct measured *run) {
    const struct ht_job *job = &run->job;
    const struct ht_allocator *likely = job->preloaded ? ht_allocator_named(job->kind) : ht_this_allocator;
    run->server = ht_server_find(likely, job->pass == HT_PASS_DESCRIBE);
    run->operators = ht_operators_find(&run->server, job->operators);
    if (job->operators) ht_new_guard_prepare();
    if (run->server.kind && run->server.kind->is_null) {
        run->replaying = (void (*)(bool))run->server.known;
    }
}

// As a program would call them: where the allocator lacks such a function, the C library's answers. The blocks are left.
static void try_odd_calls(const struct ht_job *job, struct ht_outcome *outcome) {
    for (unsigned i = 0; i < HT_ODD_CALLS_MAX; i++) {
        const struct ht_odd_call *odd = &job->odd[i];
        if (!odd->function) continue;
        const char *name = odd->function == HT_ODD_ALIGNED_ALLOC ? "aligned_alloc" : "memalign";
        void *(*call)(size_t, size_t) = (void *(*)(size_t, size_t))dlsym(RTLD_DEFAULT, name);
        if (call && !call(odd->alignment, odd->size)) outcome->refused |= 1u << i;
    }
}

static void describe(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    const struct ht_allocator *kind = run->server.kind;
    try_odd_calls(&run->job, outcome);
    outcome->skips_queries = run->server.usable_size == NULL;
    outcome->lacks_operators = run->job.operators && !run->replaying && ht_operators_lacking(&run->operators);
    if (run->job.asks_spacing) outcome->spacing = ht_block_spacing_measure(&run->server);
    if (!kind) return;
    snprintf(outcome->kind, sizeof outcome->kind, "%s", kind->name);
    kind->version(&run->server, outcome->version, sizeof outcome->version);
    for (uint32_t i = 0; kind->knobs && kind->knobs[i].name; i++) {
        assert(i < HT_KNOBS_MAX);
        struct ht_knob_report *report = &run->exchange->figures.knobs[i];
        if (kind->read_knob) {
            report->state =
                kind->read_knob(&run->server, &kind->knobs[i], report->value, sizeof report->value);
        }
    }
}

int main(int argc, char **argv) {
    static struct measured run;
    size_t form_bytes = 0, exchange_bytes = 0;
    if (argc != 3) {
        fprintf(stderr, "%s: run `replay` instead, which starts this program\n", argv[0]);
        return 2;
    }
    end_with_launcher(argv[2]);
    run.exchange = map_fd(argv[2], PROT_READ | PROT_WRITE, &exchange_bytes);
    if (!run.exchange || exchange_bytes < HT_EXCHANGE_RSS_OFFSET) {
        fprintf(stderr, "%s: not started by `replay`: no memory shared with it\n", argv[0]);
        return 2;
    }
    struct ht_outcome *outcome = &run.exchange->outcome;
    run.job = run.exchange->job;
    ht_processors_chosen(&run.exchange->chosen);
    outcome->state = HT_OUTCOME_RUNNING;
    if (!ht_service_proof(&run.job, ht_this_allocator, outcome)) {
        outcome->state = HT_OUTCOME_REFUSED;
        return 1;
    }
    find_server(&run);
    if (run.job.pass == HT_PASS_DESCRIBE) {
        describe(&run);
    } else if (run.job.pass == HT_PASS_TORTURE) {
        ht_virtual_clock_renounce();
        if (!ht_torture_run(&run.job, ht_server_function, &run.exchange->findings))
            refuse(outcome, "no memory for the torture");
    } else {
        run.form = map_fd(argv[1], PROT_READ, &form_bytes);  // nothing that goes wrong here can change it
        if (!run.form || form_bytes < sizeof *run.form || run.form->magic != HT_FORM_MAGIC ||
            run.form->bytes > form_bytes) {
            refuse(outcome, "no replay form from the launcher");
        }
        const char *comma = strchr(argv[1], ',');
        if (comma) run.before = map_fd(comma + 1, PROT_READ, &form_bytes);
        if (comma && (!run.before || form_bytes < sizeof *run.before || run.before->magic != HT_FORM_MAGIC ||
                      run.before->bytes > form_bytes)) {
            refuse(outcome, "no prelude from the launcher");
        }
        if (run.form->streamed && mprotect(run.form, run.form->bytes, PROT_READ | PROT_WRITE)) {
            refuse(outcome, "the streamed form cannot be written");
        }
        replay(&run);
    }
    outcome->state = HT_OUTCOME_DONE;
    _exit(0);  // no destructors: they are not part of what is measured
}
