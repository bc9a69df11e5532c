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

#include "allocator.h"
#include "allocator_control.h"
#include "background_threads.h"
#include "forked_group.h"
#include "measured.h"
#include "memory_probes.h"
#include "older_libc.h"
#include "page_accounts.h"
#include "peak_watch.h"
#include "perf_counters.h"
#include "processor_number.h"
#include "processors_asked.h"
#include "raw_calls.h"
#include "replay_accounting.h"
#include "replay_engine.h"
#include "replay_feed.h"
#include "replay_lane.h"
#include "replay_window.h"
#include "server.h"
#include "surroundings.h"
#include "torture.h"
#include "verify_pass.h"
#include "virtual_clock.h"

// Ends with the process that started us, which ends with the launcher. Under a wrapper both may have ended
// before: then the launcher's lock on the exchange is gone.
static void end_with_launcher(const char *exchange_fd) {
    struct flock lock = {.l_type = F_WRLCK};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!fcntl(atoi(exchange_fd), F_GETLK, &lock) && lock.l_type == F_UNLCK) _exit(1);
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

// The allocator's own threads count, those that have ended included.
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
            : ht_age_heap(aging, ht_shared_table((aging->blocks - aging->kept) * sizeof(void *), outcome));
    if (!aged) ht_measured_refuse(outcome, "no memory for a used heap (--age)");
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
    ht_measured_enter_form(inherited, run->before, run->before->streams);
    inherited->silent = true;
    if (run->replaying) run->replaying(true);
    inherited->run(inherited);
    if (run->replaying) run->replaying(false);
    ht_measured_enter_form(inherited, run->form, run->form->streams);
    inherited->silent = false;
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        struct ht_lane *lane = &run->lanes[i];
        ht_measured_enter_thread(run, lane, run->before, i % run->streams);
        lane->silent = true;
        lane->run = ht_measured_run_of(run->job.pass, true);
    }
    ht_window_go_on(window, 0);
    ht_window_run(window);
    if (end_ns > window->low_ns) ht_pace_to_end(window, end_ns);
    if (run->lanes_count > 1)
        memset((void *)run->dependencies, 0,
               (size_t)run->copy_slots * run->scale * sizeof *run->dependencies);
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        struct ht_lane *lane = &run->lanes[i];
        ht_measured_enter_thread(run, lane, run->form, i % run->streams);
        lane->silent = i >= run->streams;
        lane->run = ht_measured_run_of(run->job.pass, false);
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
        ht_left_blocks_free(ht_measured_live_slots(run), run->form->slots,
                            run->table + (size_t)copy * run->copy_slots);
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
    if (ht_measured_reads_memory(run)) {
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

// glibc 2.36 compares the mode of huge pages, as it reads it at its first call, with a string that it does not end: whether it
// knows the mode depends on what lay on the stack.
static __attribute__((noinline)) void clear_stack(void) {
    volatile char below[8192];
    for (size_t i = 0; i < sizeof below; i++) below[i] = 0;
}

static void replay(struct measured *run) {
    const struct ht_job *job = &run->job;
    struct ht_outcome *outcome = &run->exchange->outcome;
    if (job->pass == HT_PASS_GROUP) run->group = ht_group_open(run);
    ht_measured_prepare(run);
    outcome->clock_cost_ticks = clock_cost_ticks();
    for (uint32_t i = 0; i < run->lanes_count; i++) {
        run->lanes[i].clock_cost_ticks = outcome->clock_cost_ticks;
    }
    outcome->rss_start_bytes = ht_rss_anon_bytes(run->statm_fd);
    ht_measured_prepare_figures(run);
    run->start_ticks = ht_ticks();
    run->start_ticks_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    if (job->virtual_time) start_virtual_time(run);
    else ht_virtual_clock_renounce();
    clear_stack();
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
    if (run->group) ht_group_run_root(run->group);
    else run_all(run);
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
    run.exchange = ht_map_fd(argv[2], PROT_READ | PROT_WRITE, &exchange_bytes);
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
            ht_measured_refuse(outcome, "no memory for the torture");
    } else {
        run.form = ht_map_fd(argv[1], PROT_READ, &form_bytes);  // nothing that goes wrong here can change it
        if (!run.form || form_bytes < sizeof *run.form || run.form->magic != HT_FORM_MAGIC ||
            run.form->bytes > form_bytes) {
            ht_measured_refuse(outcome, "no replay form from the launcher");
        }
        const char *comma = strchr(argv[1], ',');
        if (comma) run.before = ht_map_fd(comma + 1, PROT_READ, &form_bytes);
        if (comma && (!run.before || form_bytes < sizeof *run.before || run.before->magic != HT_FORM_MAGIC ||
                      run.before->bytes > form_bytes)) {
            ht_measured_refuse(outcome, "no prelude from the launcher");
        }
        if (run.form->streamed && mprotect(run.form, run.form->bytes, PROT_READ | PROT_WRITE)) {
            ht_measured_refuse(outcome, "the streamed form cannot be written");
        }
        replay(&run);
    }
    outcome->state = HT_OUTCOME_DONE;
    _exit(0);  // no destructors: they are not part of what is measured
}
