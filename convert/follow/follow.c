// SPDX-License-Identifier: Apache-2.0
#include "follow.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "convert_raw.h"
#include "convert_request.h"
#include "follow_state.h"
#include "fork_file.h"
#include "inheritance.h"
#include "live_streams.h"
#include "now.h"
#include "print.h"
#include "punch_holes.h"
#include "raw_state.h"
#include "talk.h"
#include "trace_json.h"

// What a record may be late: the time between its stamp and its last byte. Beyond that it is merged where the
// others are by then.
static const uint64_t LATE_NS = 100000000;
static const uint64_t POLL_NS = 50000000, POLL_LEAST_NS = 2000000;
// A recording that was stopped may be in a last append.
static const double STOPPED_S = 0.2;
// The rate of the clock is known well enough after that.
static const uint64_t CLOCK_SPAN_NS = 500000000;
static const uint64_t CHECKPOINT_BYTES = UINT64_C(64) << 20, CHECKPOINT_BYTES_MAX = UINT64_C(256) << 20;
static const double CHECKPOINT_S = 30;
static const double THREADS_S = 1;  // how often it is asked which threads are gone
// How long a child waits for its parent's follower, if that one makes no progress.
static const double PARENT_S = 10;

struct follower {
    const struct convert_request *request;
    const volatile sig_atomic_t *stop;
    struct ht_raw_log log;
    char *state_path;
    struct follow_position position;
    struct ht_trace_writer *writer;
    struct merge *merge;
    struct live_streams live;
    struct hole_punch punch;
    struct fork_file *forks;
    struct live_blocks inherited;
    bool has_begun;         // the first input is there
    bool over;              // the program is gone, and all of its log has been handed on
    uint64_t polled_stamp;  // the clock before the poll before
    double stopped_s;       // when the recording was first seen stopped
    double checkpoint_s, threads_s;
    uint64_t checkpoint_bytes, checkpoint_frontier, state_bytes;
    double started_s;
    struct ht_progress shown;
    struct merge_progress progress;
    struct ht_error fork_error;
};

static void pause_ns(uint64_t ns) {
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)},
              NULL);
}

// How much there is to come, nobody knows.
static void show_progress(void *context, uint64_t done, uint64_t total, uint64_t events) {
    (void)done, (void)total;
    convert_show_progress(context, 0, 0, events);
}

// ---- is there more to come? ----

// Asked before a poll: then that poll sees all.
static bool has_ended(struct follower *f) {
    struct ht_raw_header now;
    if (pread(f->log.fd, &now, sizeof now, 0) != sizeof now) return true;
    if (now.state != HT_RAW_STOPPED) return !ht_raw_in_use(&f->log);
    if (f->stopped_s == 0) f->stopped_s = ht_now_s();
    return ht_now_s() - f->stopped_s > STOPPED_S || !ht_raw_in_use(&f->log);
}

// ---- keeping, and punching holes ----

// A large state is not written for a little progress.
static uint64_t checkpoint_step(const struct follower *f) {
    if (f->request->checkpoint_bytes) return f->request->checkpoint_bytes;
    if (f->state_bytes <= CHECKPOINT_BYTES) return CHECKPOINT_BYTES;
    return f->state_bytes < CHECKPOINT_BYTES_MAX ? f->state_bytes : CHECKPOINT_BYTES_MAX;
}

static bool is_checkpoint_due(const struct follower *f) {
    uint64_t read = f->merge->streams.bytes_read - f->checkpoint_bytes;
    // The chunks of threads that make a few calls take more space than what is in them.
    if (read > 0 && f->live.frontier - f->checkpoint_frontier >= 2 * checkpoint_step(f)) return true;
    return f->merge->streams.bytes_read >= f->merge->bytes_limit ||
           (read > 0 && ht_now_s() - f->checkpoint_s > CHECKPOINT_S);
}

// Keeps what the next process needs, and only then punches holes where nobody needs the log any more.
static int make_checkpoint(struct follower *f, struct ht_error *error) {
    if (ht_trace_checkpoint(f->writer, &f->position.trace, error)) return -1;
    if (f->merge->heap.no_memory) return ht_error_memory(error, f->log.path, "cannot follow the heap");
    if (f->forks && fork_file_sync(f->forks, error)) return -1;
    f->position.horizon = merge_position(f->merge);
    f->position.has_holes = f->punch.announced;
    f->position.fork_file_bytes = f->forks ? fork_file_bytes(f->forks) : 0;
    if (follow_state_save(f->state_path, &f->log, &f->position, f->merge, &f->live, &f->state_bytes, error))
        return -1;
    bool possible = !f->punch.impossible;
    if (!f->request->keeps_raw && punch_holes(&f->punch, &f->live, error)) return -1;
    if (possible && f->punch.impossible && !f->request->quiet)
        ht_print(stderr,
                 "heaptape convert: warning: %s: this file system cannot punch holes: the log keeps its "
                 "size\n",
                 f->log.path);
    f->checkpoint_s = ht_now_s();
    f->checkpoint_bytes = f->merge->streams.bytes_read;
    f->checkpoint_frontier = f->live.frontier;
    f->merge->bytes_limit = f->checkpoint_bytes + checkpoint_step(f);
    return 0;
}

// ---- children ----

// At a fork record: the child has what is live now. Its follower, or a later conversion, finds it in the
// fork file, because this log will have holes by then.
static bool note_fork(struct merge *m, uint32_t input, uint64_t stamp) {
    struct follower *f = m->context;
    struct live_blocks blocks;
    bool noted = merge_live_blocks(m, &blocks);
    (void)input;
    if (!noted) {
        ht_error_memory(&f->fork_error, f->log.path, "cannot save what a child inherits");
        return false;
    }
    noted = !fork_file_put(f->forks, stamp, &blocks, &f->fork_error);
    live_blocks_free(&blocks);
    return noted;
}

// All fork records up to there are noted: an input that waits may hold one back.
static void report_to_children(struct follower *f) { fork_file_passed(f->forks, merge_position(f->merge)); }

static bool has_stopped(const struct follower *f) { return *f->stop != 0; }

// What the process inherited. Its parent's follower may have to come to the fork first.
static int inherit(struct follower *f, struct ht_error *error) {
    char warning[INHERITANCE_WARNING_BYTES] = "";
    struct inheritance_wait wait = {0};
    double since_s = ht_now_s();
    if (f->request->no_parent) return 0;
    wait.for_parent = f->request->parent_is_followed;
    while (inheritance_must_wait(&f->log, &wait) && !has_stopped(f)) {
        if (wait.progresses) since_s = ht_now_s();
        if (ht_now_s() - since_s > PARENT_S) break;
        pause_ns(POLL_NS);
    }
    int status = inheritance_find(&f->log, f->request->parent, &f->inherited, warning, &f->progress, error);
    if (!status && *warning) ht_print(stderr, "heaptape convert: warning: %s: %s\n", f->log.path, warning);
    return status;
}

// ---- the beginning ----

// The log as it is when the recording has begun, which a paused one has not.
static int open_begun(struct follower *f, struct ht_error *error) {
    for (;;) {
        if (ht_raw_open(&f->log, f->request->input, error)) return -1;
        if (f->log.header.state != HT_RAW_PAUSED || has_stopped(f) || !ht_raw_in_use(&f->log)) return 0;
        ht_raw_close(&f->log);
        pause_ns(POLL_NS);
    }
}

// The clock pair that the times are reckoned by. A short log has its own.
static void take_clock(struct follower *f) {
    struct ht_raw_header *header = &f->log.header;
    while (!has_stopped(f) && !has_ended(f)) {
        struct ht_clock_pair now = log_clock_pair(&f->log);
        if (now.mono_ns > header->first_pair.mono_ns + CLOCK_SPAN_NS) {
            f->position.clock_pair = now;
            return;
        }
        pause_ns(POLL_NS);
    }
    if (pread(f->log.fd, header, sizeof *header, 0) != sizeof *header) return;
    f->position.clock_pair = header->last_pair[header->last_pair[1].stamp > header->last_pair[0].stamp];
}

// The merge reckons times by the log's first and last clock pair.
static void set_clock(struct follower *f) {
    f->log.header.last_pair[0] = f->position.clock_pair;
    f->log.header.last_pair[1] = (struct ht_clock_pair){0};
}

static int begin_merge(struct follower *f, struct ht_error *error) {
    set_clock(f);
    f->merge = merge_begin_growing(&f->log, f->writer, error);
    if (!f->merge) return -1;
    f->merge->heap.keeps_order = true;
    f->merge->bytes_limit = checkpoint_step(f);
    f->merge->context = f;
    live_streams_open(&f->live, &f->log, &f->merge->streams);
    if (f->forks) f->merge->at_fork = note_fork;
    return 0;
}

// Without holes, the log itself shows what a child got.
static int open_forks(struct follower *f, struct ht_error *error) {
    if (f->request->keeps_raw) return 0;
    f->forks = fork_file_open(&f->log, f->position.fork_file_bytes, error);
    return f->forks ? 0 : -1;
}

static int begin_anew(struct follower *f, struct ht_error *error) {
    const struct convert_request *request = f->request;
    if (consumed_log_check(&f->log, error)) return -1;
    f->position = (struct follow_position){.time_unit_ns = request->time_unit_ns, .level = request->level};
    f->writer = ht_trace_create_lasting(request->output, request->time_unit_ns, request->level, error);
    if (!f->writer || open_forks(f, error) || inherit(f, error)) return -1;
    take_clock(f);
    set_clock(f);
    trace_json_put_context(f->writer, trace_json_context(&f->log));
    return begin_merge(f, error);
}

// Is what was in holes punched since this trace was left in another's? Then what lies behind its state's
// positions may be gone. Where holes were punched for this trace, another name proves nothing: its folder may
// have been moved.
static int check_consumer(struct follower *f, struct ht_error *error) {
    char consumer[HT_RAW_CONSUMER_BYTES];
    f->punch.announced = ht_raw_consumer(&f->log, consumer);
    if (!f->punch.announced || f->position.has_holes || !strcmp(consumer, f->punch.trace)) return 0;
    return consumed_log_check(&f->log, error);
}

static int resume(struct follower *f, struct ht_error *error) {
    struct follow_state *state = follow_state_open(f->state_path, &f->log, &f->position, error);
    if (!state) return -1;
    if (check_consumer(f, error)) {
        follow_state_close(state);
        return -1;
    }
    const struct convert_request *request = f->request;
    if (request->given_time_unit && request->time_unit_ns != f->position.time_unit_ns) {
        follow_state_close(state);
        return ht_error_input(error, f->state_path, 0,
                              "expected a trace in units of %" PRIu32
                              " ns, found one begun in units of %" PRIu32,
                              request->time_unit_ns, f->position.time_unit_ns);
    }
    if (request->given_level) f->position.level = request->level;
    f->writer = ht_trace_resume(f->request->output, f->position.time_unit_ns, f->position.level,
                                &f->position.trace, error);
    int status = f->writer && !open_forks(f, error) ? begin_merge(f, error) : -1;
    if (!status) status = follow_state_restore(state, f->merge, &f->live, error);
    follow_state_close(state);
    f->has_begun = !status && f->merge->heap.threads_count > 0;
    if (!f->has_begun && !status) status = inherit(f, error);
    if (!status && !f->request->quiet && !f->request->in_record) {
        char count[HT_NUMBER_OF_BYTES];
        ht_print(stderr, "%s: resumed at %s\n", f->request->output,
                 ht_number_of(count, f->position.trace.next_event, "event"));
    }
    return status;
}

// ---- the pass ----

// Hands new records to the merge's inputs. Returns 0 or -1 with error.
static int poll_log(struct follower *f, struct ht_error *error) {
    struct merge *m = f->merge;
    uint64_t now = log_clock_now(&f->log);
    f->over = has_ended(f);
    if (live_streams_poll(&f->live, f->over, error)) return -1;
    set_clock(f);  // the poll has read the header again
    if (!merge_know_streams(m)) return ht_error_memory(error, f->log.path, "cannot follow the log");
    for (uint32_t i = 0; i < m->inputs; i++)
        if (m->input[i].idle && m->streams.stream[i].next_chunk < m->streams.stream[i].chunks)
            merge_ready(m, i);
    if (!f->has_begun && m->order_count) {
        if (merge_inherit(m, &f->inherited, error)) return -1;
        live_blocks_free(&f->inherited);
        f->has_begun = true;
    }
    // What the poll before saw, this one has handed on. Older records may only be late.
    uint64_t late = (uint64_t)((double)LATE_NS / ht_raw_ns_per_stamp(&f->log));
    uint64_t handed_on = f->polled_stamp > late ? f->polled_stamp - late : 0;
    if (handed_on > live_streams_limit(&f->live)) handed_on = live_streams_limit(&f->live);
    if (f->over) merge_stop_growing(m);
    else if (handed_on > m->horizon) m->horizon = handed_on;
    f->polled_stamp = now;
    return 0;
}

// Merges what has been handed on, with a checkpoint wherever one is due. Returns 0 or -1 with error.
static int run(struct follower *f, struct ht_error *error) {
    struct merge *m = f->merge;
    for (;;) {
        if (merge_run(m, &f->progress, error)) {
            if (m->failed) *error = f->fork_error;
            return -1;
        }
        bool paused = m->streams.bytes_read >= m->bytes_limit;
        // A trace that cannot be written shows at the checkpoint.
        if ((ht_trace_failed(f->writer) || is_checkpoint_due(f)) && make_checkpoint(f, error)) return -1;
        if (has_stopped(f) || !paused) return 0;
    }
}

// Streams that nobody will add to, and which are merged to their end.
static int end_gone_threads(struct follower *f, struct ht_error *error) {
    const struct merge *m = f->merge;
    for (uint32_t i = 0; i < m->inputs; i++) {
        if (!m->input[i].idle || f->live.stream[i].over || !gone_threads_confirm(&f->live, i)) continue;
        if (live_stream_end(&f->live, i)) continue;
        return ht_error_memory(error, f->log.path, "cannot follow the log");
    }
    if (ht_now_s() - f->threads_s > THREADS_S) {
        f->threads_s = ht_now_s();
        gone_threads_note(&f->live);
    }
    return 0;
}

static int pass(struct follower *f, struct ht_error *error) {
    for (;;) {
        double started_s = ht_now_s();
        if (poll_log(f, error) || run(f, error)) return -1;
        if (f->over && !has_stopped(f)) return 0;
        if (has_stopped(f)) return f->has_begun ? make_checkpoint(f, error) : 0;
        if (f->forks) report_to_children(f);
        if (!f->request->keeps_raw && end_gone_threads(f, error)) return -1;
        double took_ns = (ht_now_s() - started_s) * 1e9;
        pause_ns(took_ns + (double)POLL_LEAST_NS < (double)POLL_NS ? POLL_NS - (uint64_t)took_ns
                                                                   : POLL_LEAST_NS);
    }
}

// ---- the end ----

// As part of heaptape record --convert. The log's name is kept to the end of the run where it must not go to another log: that
// of the program that the process has executed, whose number would be before its own, or one whose notes of forks would go
// where a child that still runs looks for these.
static bool give_back_log(struct follower *f, bool has_forks) {
    bool lives = !kill((pid_t)f->log.header.pid, 0) || errno != ESRCH;
    if ((has_forks || lives) && punch_all_but_header(&f->punch)) return true;
    return !unlink(f->log.path);
}

static int finish(struct follower *f, struct follow_ending *ending, struct ht_error *error) {
    struct merge_result result;
    char *partial = strdup(ht_trace_partial_path(f->writer));
    struct ht_trace_writer *writer = f->writer;
    merge_results(f->merge, &result);
    f->merge->heap.threads = NULL;
    f->writer = NULL;
    ending->events = result.totals.events;
    ending->share = merge_heap_share(&result.totals);
    ending->cpu_ns = result.totals.cpu_ns;
    ending->late_records = f->merge->late_records;
    bool has_forks = f->forks && fork_file_finish(f->forks);
    convert_warn_about(&f->log);
    int status =
        convert_finish(f->request, &f->log, writer, &result, f->started_s, &ending->file_bytes, error);
    // Without a call there is no trace, and nothing to go on with.
    ending->empty = !ending->events;
    if (ending->empty && partial) unlink(partial);
    free(partial);
    if (status && ending->events) return -1;
    unlink(f->state_path);
    // A paused process listens to its log: heaptape ctl still needs it.
    bool removes = f->request->in_record && !ht_raw_in_use(&f->log);
    if (removes && !give_back_log(f, has_forks) && !status)
        status = ht_error_system(error, f->log.path, "cannot remove");
    ending->complete = !status;
    return status;
}

static void close_all(struct follower *f) {
    if (f->merge) {
        free(f->merge->heap.threads);
        live_streams_close(&f->live);
        merge_end(f->merge);
    }
    ht_trace_abandon(f->writer);
    fork_file_close(f->forks);
    live_blocks_free(&f->inherited);
    ht_raw_close(&f->log);
    free(f->state_path);
}

// The header names the trace in full: the log may be read from anywhere. A name that does not fit is none at all:
// cut off, it could be another trace's.
static bool name_trace(struct follower *f) {
    const char *output = f->request->output;
    char *folder = *output == '/' ? strdup("") : getcwd(NULL, 0);
    int length = !folder ? -1
                         : snprintf(f->punch.trace, sizeof f->punch.trace, "%s%s%s", folder,
                                    *folder ? "/" : "", output);
    free(folder);
    if (length >= 0 && (size_t)length < sizeof f->punch.trace) return true;
    *f->punch.trace = 0;
    return false;
}

// A log can only have holes where its other readers learn where the records went, and nobody else follows it.
static void allow_holes(struct follower *f, bool locked) {
    const char *why = NULL;
    f->punch.log = &f->log;
    if (!name_trace(f)) why = "its header has no space for the trace's path";
    if (!locked) why = "this file system has no locks";
    f->punch.impossible = why != NULL;
    if (why && !f->request->keeps_raw && !f->request->quiet)
        ht_print(stderr, "heaptape convert: warning: %s: %s: no holes are punched\n", f->log.path, why);
}

// A state whose trace has been put in place already: its writer was killed in between.
static bool is_left_behind(const struct follower *f) {
    char partial[PATH_MAX];
    snprintf(partial, sizeof partial, "%s.partial", f->request->output);
    return access(partial, F_OK) && !access(f->request->output, F_OK);
}

// The log has been followed to its end: what was in its holes went into the trace that is there.
static bool is_done(const struct follower *f) {
    char consumer[HT_RAW_CONSUMER_BYTES];
    return access(f->state_path, F_OK) && ht_raw_consumer(&f->log, consumer) &&
           !strcmp(consumer, f->punch.trace) && !access(f->request->output, F_OK);
}

static int follow(struct follower *f, struct follow_ending *ending, struct ht_error *error) {
    if (open_begun(f, error)) {
        ending->empty = access(f->request->input, F_OK) != 0;
        return -1;
    }
    if (!log_clock_is_here(&f->log))
        return ht_error_input(error, f->log.path, 56,
                              "expected a log by this machine's clock, found another's");
    bool locked;
    if (consumed_log_lock(&f->log, &locked, error)) return -1;
    allow_holes(f, locked);
    if (asprintf(&f->state_path, "%s.state", f->request->output) < 0) {
        f->state_path = NULL;
        return ht_error_system(error, f->request->output, "cannot follow");
    }
    if (is_left_behind(f)) unlink(f->state_path);
    if (is_done(f)) {
        if (!f->request->quiet) ht_print(stderr, "%s: already complete\n", f->request->output);
        ending->complete = true;
        return 0;
    }
    ht_progress_start(&f->shown);
    int status = access(f->state_path, F_OK) ? begin_anew(f, error) : resume(f, error);
    f->checkpoint_s = ht_now_s();
    if (!status) status = pass(f, error);
    ht_progress_end(&f->shown);
    ending->events = f->writer ? ht_trace_next_event(f->writer) : 0;
    return status || has_stopped(f) ? status : finish(f, ending, error);
}

int follow_log(const struct convert_request *request, const volatile sig_atomic_t *stop,
               struct follow_ending *ending, struct ht_error *error) {
    struct follower *f = calloc(1, sizeof *f);
    *ending = (struct follow_ending){0};
    if (!f) return ht_error_memory(error, request->input, "cannot follow");
    f->request = request;
    f->stop = stop;
    f->started_s = ht_now_s();
    f->log.fd = -1;
    // It may go on for months: no line a minute in a service's log.
    bool silent = request->quiet || request->in_record || !isatty(STDERR_FILENO);
    f->progress = (struct merge_progress){silent ? NULL : show_progress, &f->shown};
    int status = follow(f, ending, error);
    close_all(f);
    free(f);
    return status;
}

// ---- as a command ----

static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOPPING = sizeof stopping / sizeof *stopping };

// A handler has no other way to report.
static volatile sig_atomic_t stopped_by;

static void stop(int number) { stopped_by = number; }

static void heed_signals(void) {
    struct sigaction old, stops = {.sa_handler = stop};
    for (int i = 0; i < STOPPING; i++)
        if (!sigaction(stopping[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(stopping[i], &stops, NULL);
    // The kernel sends this one when a process opens the log for writing while we check for writers.
    signal(SIGIO, SIG_IGN);
}

int follow_run(const struct convert_request *request) {
    struct follow_ending ending;
    struct ht_error error;
    char count[HT_NUMBER_OF_BYTES];
    heed_signals();
    if (follow_log(request, &stopped_by, &ending, &error)) return ht_complain("heaptape convert", &error);
    if (!ending.complete) {
        if (!request->quiet)
            fprintf(stderr, "%s.partial: %s so far\nnext: heaptape convert --follow %s -o %s\n",
                    request->output, ht_number_of(count, ending.events, "event"), request->input,
                    request->output);
        return 128 + stopped_by;
    }
    if (ending.late_records && !request->quiet)
        ht_print(stderr, "heaptape convert: %s came late: the trace has them in the order of arrival\n",
                 ht_number_of(count, ending.late_records, "record"));
    return HT_EXIT_DONE;
}
