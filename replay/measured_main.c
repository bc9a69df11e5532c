// The measured child: maps the form and the exchange that the launcher passes it, proves who serves its
// calls, replays, answers in the exchange and ends. It calls no malloc of its own.
#include <errno.h>
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
#include "raw_clock.h"
#include "replay_engine.h"
#include "replay_feed.h"
#include "replay_lane.h"
#include "replay_window.h"
#include "rss_probe.h"
#include "service_proof.h"
#include "verify_pass.h"
#include "virtual_clock.h"

struct measured {
    struct ht_form *form;
    struct ht_exchange *exchange;
    struct ht_window window;
    struct ht_lane *lanes;     // the streams', and one more for what is inherited
    struct ht_verify *verify;  // NULL but in a pass that checks the allocator
    int statm_fd;
    struct rusage usage_before, usage_after;
    uint64_t start_ns, start_ticks;
};

static _Noreturn void refuse(struct ht_outcome *outcome, const char *what) {
    snprintf(outcome->message, sizeof outcome->message, "%s: %s", what, strerrordesc_np(errno));
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

static void *map_fd(const char *text, int protection, size_t *bytes) {
    int fd = atoi(text);
    struct stat status;
    if (fstat(fd, &status)) return NULL;
    *bytes = (size_t)status.st_size;
    void *map = mmap(NULL, *bytes, protection, MAP_SHARED, fd, 0);
    return map == MAP_FAILED ? NULL : map;
}

static void fault_in(const void *start, size_t bytes) {
    const volatile char *at = start;
    for (size_t i = 0; i < bytes; i += HT_TOUCH_PAGE_BYTES) (void)at[i];
    if (bytes) (void)at[bytes - 1];
}

static void prepare_lane(struct measured *run, uint32_t i, void **table, _Atomic uint32_t *handovers) {
    const struct ht_job *job = &run->exchange->job;
    struct ht_form *form = run->form;
    struct ht_lane *lane = &run->lanes[i];
    lane->table = table;
    lane->handovers = handovers;
    lane->page_stride = ht_allocator.is_null ? 0 : HT_TOUCH_PAGE_BYTES;
    lane->touch = job->touch;
    lane->touch_free = job->touch_free;
    lane->pass = job->pass;
    lane->verify = run->verify;
    lane->form = form;
    lane->stream = ht_form_streams(form) + i;
    lane->rss_bytes = (uint64_t *)((char *)run->exchange + HT_EXCHANGE_RSS_OFFSET);
    lane->readings = (struct ht_reading *)(lane->rss_bytes + form->samples);
    lane->statm_fd = run->statm_fd;
    if (job->pass == HT_PASS_TIMED && job->pollution_bytes) {
        lane->pollution = shared_table(job->pollution_bytes, &run->exchange->outcome);
        lane->pollution_bytes = job->pollution_bytes;
    }
    if (!form->streamed) ht_feed_fault_in(form, lane->stream);
}

static void prepare_verify(struct measured *run, uint32_t slots) {
    struct ht_exchange *exchange = run->exchange;
    if (exchange->job.pass != HT_PASS_VERIFY) return;
    run->verify = ht_verify_prepare(shared_table(ht_verify_bytes(slots), &exchange->outcome), slots,
                                    &exchange->findings);
}

static void prepare(struct measured *run) {
    struct ht_outcome *outcome = &run->exchange->outcome;
    uint32_t streams = run->form->streams, slots = run->form->slots;
    run->statm_fd = ht_rss_open();
    if (run->statm_fd < 0) refuse(outcome, "/proc/self/statm can't be read");
    void **table = shared_table((size_t)slots * sizeof(void *), outcome);
    _Atomic uint32_t *handovers = shared_table(streams > 1 ? (size_t)slots * sizeof(uint32_t) : 1, outcome);
    prepare_verify(run, slots);
    run->lanes = shared_table((streams + 1) * sizeof(struct ht_lane), outcome);
    fault_in((char *)run->exchange + HT_EXCHANGE_RSS_OFFSET,
             run->form->samples * sizeof(uint64_t) + run->form->readings * sizeof(struct ht_reading));
    if (run->form->streamed) fault_in(run->form, run->form->bytes);
    for (uint32_t i = 0; i <= streams; i++) prepare_lane(run, i, table, handovers);
    ht_window_init(&run->window, run->lanes, streams, run->exchange->job.window_ns,
                   shared_table(streams * sizeof(uint64_t), outcome),
                   shared_table(streams * sizeof(uint32_t), outcome), outcome);
    run->window.replaying = ht_allocator.replaying;
}

static uint64_t clock_cost_ticks(void) {
    uint64_t lowest = UINT64_MAX;
    for (int i = 0; i < 1000; i++) {
        uint64_t before = ht_ticks(), ticks = ht_ticks() - before;
        if (ticks < lowest) lowest = ticks;
    }
    return lowest;
}

// Everything has been executed; threads that lasted to the end of the program still exist.
static void take_end(void *context) {
    struct measured *run = context;
    struct ht_outcome *outcome = &run->exchange->outcome;
    outcome->ticks = ht_ticks() - run->start_ticks;
    outcome->ticks_ns = outcome->wall_ns = ht_raw_clock_ns(CLOCK_MONOTONIC) - run->start_ns;
    getrusage(RUSAGE_SELF, &run->usage_after);
    outcome->rss_end_bytes = ht_rss_anon_bytes(run->statm_fd);
}

// What a forked process had from the start is part of its footprint, and none of its calls: the blocks are
// allocated before anything is counted but RSS.
static void allocate_inherited(struct measured *run) {
    if (ht_allocator.replaying) ht_allocator.replaying(true);
    ht_engine_run(&run->lanes[run->form->streams]);
    if (ht_allocator.replaying) ht_allocator.replaying(false);
}

static void add_failures(struct ht_outcome *outcome, const struct ht_lane *lane) {
    if (lane->failures && !outcome->failures) {
        memcpy(outcome->first_failure, lane->first_failure, sizeof outcome->first_failure);
    }
    outcome->failures += lane->failures;
}

static void add_lane(struct ht_outcome *outcome, const struct ht_lane *lane) {
    double ns_per_tick = outcome->ticks ? (double)outcome->ticks_ns / (double)outcome->ticks : 0;
    outcome->cpu_ns += lane->cpu_ns;
    outcome->wait_ns += (uint64_t)((double)lane->wait_ticks * ns_per_tick);
    outcome->operations += lane->stream->operations;
    outcome->starved_ns += (uint64_t)((double)lane->starved_ticks * ns_per_tick);
    outcome->samples_taken += lane->samples_taken;
    add_failures(outcome, lane);
}

static void replay(struct measured *run) {
    const struct ht_job *job = &run->exchange->job;
    struct ht_outcome *outcome = &run->exchange->outcome;
    uint32_t first = run->form->initial_stream;
    prepare(run);
    outcome->clock_cost_ticks = clock_cost_ticks();
    for (uint32_t i = 0; i < run->form->streams; i++) {
        run->lanes[i].clock_cost_ticks = outcome->clock_cost_ticks;
    }
    outcome->rss_start_bytes = ht_rss_anon_bytes(run->statm_fd);
    if (job->virtual_time) ht_virtual_clock_start(&run->window.low_ns);
    allocate_inherited(run);
    getrusage(RUSAGE_SELF, &run->usage_before);
    run->start_ns = ht_raw_clock_ns(CLOCK_MONOTONIC);
    run->start_ticks = ht_ticks();
    ht_window_run(&run->window, first == HT_NO_STREAM ? NULL : &run->lanes[first], take_end, run);
    if (run->verify) ht_verify_end(run->verify, run->lanes[0].table);
    outcome->minor_faults = (uint64_t)(run->usage_after.ru_minflt - run->usage_before.ru_minflt);
    outcome->major_faults = (uint64_t)(run->usage_after.ru_majflt - run->usage_before.ru_majflt);
    add_failures(outcome, &run->lanes[run->form->streams]);
    outcome->samples_taken += run->lanes[run->form->streams].samples_taken;
    for (uint32_t i = 0; i < run->form->streams; i++) add_lane(outcome, &run->lanes[i]);
}

int main(int argc, char **argv) {
    static struct measured run;
    size_t form_bytes = 0, exchange_bytes = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // whoever started us may have died of the launcher's end
    if (argc != 3) {
        fprintf(stderr, "%s: started by `replay`, which passes it what to replay\n", argv[0]);
        return 2;
    }
    run.exchange = map_fd(argv[2], PROT_READ | PROT_WRITE, &exchange_bytes);
    if (!run.exchange || exchange_bytes < HT_EXCHANGE_RSS_OFFSET) {
        fprintf(stderr, "%s: no exchange with the launcher\n", argv[0]);
        return 2;
    }
    struct ht_outcome *outcome = &run.exchange->outcome;
    outcome->state = HT_OUTCOME_RUNNING;
    if (!ht_service_proof(&run.exchange->job, ht_allocator.soname, outcome)) {
        outcome->state = HT_OUTCOME_REFUSED;
        return 1;
    }
    if (run.exchange->job.pass == HT_PASS_DESCRIBE) {
        ht_allocator.version(outcome->version, sizeof outcome->version);
    } else {
        run.form = map_fd(argv[1], PROT_READ, &form_bytes);  // nothing that goes wrong here can change it
        if (!run.form || form_bytes < sizeof *run.form || run.form->magic != HT_FORM_MAGIC ||
            run.form->bytes > form_bytes) {
            refuse(outcome, "no replay form from the launcher");
        }
        if (run.form->streamed && mprotect(run.form, form_bytes, PROT_READ | PROT_WRITE)) {
            refuse(outcome, "the streamed form can't be written");
        }
        replay(&run);
    }
    outcome->state = HT_OUTCOME_DONE;
    _exit(0);  // no destructors: they are not part of what is measured
}
