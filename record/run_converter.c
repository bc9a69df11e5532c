// SPDX-License-Identifier: Apache-2.0
#include "run_converter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "follow.h"
#include "fork_file.h"
#include "grow.h"
#include "now.h"
#include "print.h"
#include "punch_holes.h"
#include "raw_in_use.h"
#include "shell_log.h"
#include "talk.h"
#include "write_all.h"

// A follower takes up to 20 MiB and what its process's live blocks need.
enum { FOLLOWERS_MAX = 128, SCAN_MS = 50 };
// A child that outlives the program by less is waited for.
static const double GRACE_S = 0.5;

enum job_state { WAITING, FOLLOWED, DONE };

struct job {
    enum job_state state;
    uint64_t start_realtime_ns;
    pid_t follower;
    bool asked_to_stop;
    struct converted result;
};

struct watch {
    const char *folder, *run_id;
    bool quiet;
    DIR *names;
    char **seen;  // sorted: files that need no further check
    size_t seen_count, seen_room;
    struct job **job;  // in the order in which they were found
    size_t jobs, jobs_room;
    unsigned followers;
    int endings[2];  // a pipe from all followers
};

// What a follower reports: short enough for one piece of a pipe.
struct reported_ending {
    pid_t follower;
    struct follow_ending ending;
};

static volatile sig_atomic_t stopped_by;
static void stop(int number) { stopped_by = number; }

// ---- one follower ----

static bool is_taken(const struct watch *watch, const char *trace) {
    char path[PATH_MAX + 16];
    for (size_t i = 0; i < watch->jobs; i++)
        if (!watch->job[i]->result.empty && !strcmp(watch->job[i]->result.trace, trace)) return true;
    snprintf(path, sizeof path, "%s.partial", trace);
    return !access(trace, F_OK) || !access(path, F_OK);
}

// The trace beside the log: malloc-footprint.PID.bin. Where the log of an earlier process of that number has
// become a trace and gone, so that its name was free again, malloc-footprint.PID-2.bin and so on.
static void name_trace(const struct watch *watch, struct converted *result) {
    int length = (int)(strlen(result->raw) - strlen(".mraw"));
    snprintf(result->trace, sizeof result->trace, "%.*s.bin", length, result->raw);
    for (unsigned number = 2; is_taken(watch, result->trace); number++)
        snprintf(result->trace, sizeof result->trace, "%.*s-%u.bin", length, result->raw, number);
}

static _Noreturn void follow_one(const struct watch *watch, const struct job *job) {
    const struct convert_request request = {.input = job->result.raw,
                                            .output = job->result.trace,
                                            .level = 3,
                                            .time_unit_ns = 32,
                                            .quiet = watch->quiet,
                                            .follow = true,
                                            .in_record = true};
    struct sigaction stops = {.sa_handler = stop};
    struct reported_ending reported = {.follower = getpid()};
    struct ht_error error;
    sigaction(SIGTERM, &stops, NULL);
    int status = follow_log(&request, &stopped_by, &reported.ending, &error);
    // A log without a call is nobody's trouble.
    if (status && !reported.ending.empty) ht_complain("heaptape record", &error);
    if (write(watch->endings[1], &reported, sizeof reported) != sizeof reported) status = -1;
    _exit(status ? 1 : 0);
}

static void start_follower(struct watch *watch, struct job *job) {
    pid_t pid = fork();
    if (pid == 0) follow_one(watch, job);
    if (pid < 0) return;  // tried again at the next scan
    job->state = FOLLOWED;
    job->follower = pid;
    watch->followers++;
}

// ---- finding logs ----

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_seen(const struct watch *watch, const char *name) {
    return watch->seen_count &&
           bsearch(&name, watch->seen, watch->seen_count, sizeof *watch->seen, by_name) != NULL;
}

static void add_seen(struct watch *watch, const char *name) {
    if (!ht_grow(&watch->seen, &watch->seen_room, watch->seen_count + 1, sizeof *watch->seen)) return;
    char *copy = strdup(name);
    if (!copy) return;
    size_t at = watch->seen_count++;
    for (; at > 0 && strcmp(watch->seen[at - 1], copy) > 0; at--) watch->seen[at] = watch->seen[at - 1];
    watch->seen[at] = copy;
}

static struct job *add_job(struct watch *watch) {
    if (!ht_grow(&watch->job, &watch->jobs_room, watch->jobs + 1, sizeof *watch->job)) return NULL;
    struct job *job = calloc(1, sizeof *job);
    if (job) watch->job[watch->jobs++] = job;
    return job;
}

static void forget_seen(struct watch *watch, const char *name) {
    char **found = watch->seen_count
                       ? bsearch(&name, watch->seen, watch->seen_count, sizeof *watch->seen, by_name)
                       : NULL;
    if (!found) return;
    free(*found);
    size_t behind = (size_t)(watch->seen + --watch->seen_count - found);
    memmove(found, found + 1, behind * sizeof *found);
}

// Is it a log of this run? One that is half made is checked again.
static void meet(struct watch *watch, const char *name) {
    struct ht_raw_log log;
    struct ht_error error;
    struct converted result = {0};
    if (snprintf(result.raw, sizeof result.raw, "%s/%s", watch->folder, name) >= (int)sizeof result.raw)
        return;
    if (ht_raw_open(&log, result.raw, &error)) return;
    const char *id = ht_raw_context(&log, "run");
    bool ours = id && !strcmp(id, watch->run_id);
    struct job *job = ours ? add_job(watch) : NULL;
    if (job) {
        name_trace(watch, &result);
        result.shell = shell_log_name(&log) != NULL;
        result.pid = log.header.pid;
        const char *hooks = ht_raw_context(&log, "linked_hooks");
        snprintf(result.hooks, sizeof result.hooks, "%s", hooks ? hooks : "");
        const char *executable = ht_raw_context(&log, "executable");
        snprintf(result.executable, sizeof result.executable, "%s", executable ? executable : "");
        job->result = result;
        job->start_realtime_ns = log.header.start_realtime_ns;
    }
    if (job || !ours) add_seen(watch, name);
    ht_raw_close(&log);
}

static bool is_log_name(const char *name) {
    size_t length = strlen(name);
    return !strncmp(name, "malloc-footprint.", 17) && length > 5 && !strcmp(name + length - 5, ".mraw");
}

static void scan(struct watch *watch) {
    struct dirent *entry;
    rewinddir(watch->names);
    while ((entry = readdir(watch->names)))
        if (is_log_name(entry->d_name) && !is_seen(watch, entry->d_name)) meet(watch, entry->d_name);
}

// A parent began before its children, so its follower is never behind theirs in the queue.
static void start_waiting(struct watch *watch) {
    while (watch->followers < FOLLOWERS_MAX) {
        struct job *first = NULL;
        for (size_t i = 0; i < watch->jobs; i++)
            if (watch->job[i]->state == WAITING &&
                (!first || watch->job[i]->start_realtime_ns < first->start_realtime_ns))
                first = watch->job[i];
        if (!first) return;
        start_follower(watch, first);
        if (first->state == WAITING) return;
    }
}

// ---- endings ----

static struct job *job_of(const struct watch *watch, pid_t follower) {
    for (size_t i = 0; i < watch->jobs; i++)
        if (watch->job[i]->state == FOLLOWED && watch->job[i]->follower == follower) return watch->job[i];
    return NULL;
}

static void read_endings(struct watch *watch) {
    struct reported_ending reported;
    while (read(watch->endings[0], &reported, sizeof reported) == sizeof reported) {
        struct job *job = job_of(watch, reported.follower);
        if (!job) continue;
        job->result.events = reported.ending.events;
        job->result.file_bytes = reported.ending.file_bytes;
        job->result.share = reported.ending.share;
        job->result.complete = reported.ending.complete;
        job->result.empty = reported.ending.empty;
    }
}

// The job's log, and not that of a later process of the same number. False if it is gone.
static bool open_log(const struct job *job, struct ht_raw_log *log) {
    struct ht_error error;
    if (ht_raw_open(log, job->result.raw, &error)) return false;
    if (log->header.start_realtime_ns == job->start_realtime_ns) return true;
    ht_raw_close(log);
    return false;
}

// Where its log has gone, another may have come by that name.
static void finish_job(struct watch *watch, struct job *job) {
    struct ht_raw_log log;
    job->state = DONE;
    watch->followers--;
    if (open_log(job, &log)) ht_raw_close(&log);
    else forget_seen(watch, strrchr(job->result.raw, '/') + 1);
}

static void reap(struct watch *watch) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        read_endings(watch);  // it reported its ending before it went
        struct job *job = job_of(watch, pid);
        if (!job) continue;
        finish_job(watch, job);
        if (WIFSIGNALED(status))
            ht_print(stderr, "heaptape record: %s: signal %d ended its conversion\n", job->result.raw,
                     WTERMSIG(status));
    }
}

static bool is_running(const struct job *job) {
    struct ht_raw_log log;
    if (!open_log(job, &log)) return false;
    bool in_use = !punch_holes_under_way(&log) && ht_raw_in_use(&log);
    ht_raw_close(&log);
    return in_use;
}

// After the program's end: followers of what still runs keep their state and go.
static void stop_running(struct watch *watch) {
    for (size_t i = 0; i < watch->jobs; i++) {
        struct job *job = watch->job[i];
        if (job->state == DONE || job->asked_to_stop || !is_running(job)) continue;
        job->asked_to_stop = job->result.running = true;
        if (job->state == FOLLOWED) kill(job->follower, SIGTERM);
        else job->state = DONE;
    }
}

static bool all_done(const struct watch *watch) {
    for (size_t i = 0; i < watch->jobs; i++)
        if (watch->job[i]->state != DONE) return false;
    return true;
}

// ---- the watching process ----

static void remove_log(const struct job *job) {
    struct ht_raw_log log;
    if (!open_log(job, &log)) return;
    if (!ht_raw_in_use(&log)) unlink(log.path);
    ht_raw_close(&log);
}

// Logs of phases that ended before their process did, and notes of forks.
static void tidy_up(const struct watch *watch) {
    char path[PATH_MAX];
    for (size_t i = 0; i < watch->jobs; i++)
        if (watch->job[i]->result.complete) remove_log(watch->job[i]);
    for (size_t i = 0; i < watch->jobs; i++)
        if (watch->job[i]->result.running) return;  // a child of it may still want its parent's
    for (size_t i = 0; i < watch->jobs; i++)
        if (fork_file_path(watch->job[i]->result.raw, path, sizeof path)) unlink(path);
}

static void print_results(const struct watch *watch, int results) {
    for (size_t i = 0; i < watch->jobs; i++) {
        const struct converted *result = &watch->job[i]->result;
        if (!result->empty && !ht_write_all(results, result, sizeof *result)) return;
    }
}

// True once the program has ended, or the process that ran it; waits a little otherwise.
static bool has_ended(int run, bool *by_itself) {
    struct pollfd ended = {.fd = run, .events = POLLIN};
    char word;
    if (poll(&ended, 1, SCAN_MS) <= 0) return false;
    *by_itself = read(run, &word, sizeof word) == sizeof word;
    return true;
}

static _Noreturn void watch_run(struct watch *watch, int run, int results) {
    static const int others_business[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM, SIGUSR1, SIGUSR2, SIGIO, SIGPIPE};
    for (size_t i = 0; i < sizeof others_business / sizeof *others_business; i++)
        signal(others_business[i], SIG_IGN);
    signal(SIGCHLD, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);  // SIGTERM stops followers
    watch->names = opendir(watch->folder);
    if (!watch->names || pipe2(watch->endings, O_CLOEXEC | O_NONBLOCK)) _exit(1);
    double ended_s = 0;  // 0: it has not
    bool by_itself = true;
    for (;;) {
        if (ended_s == 0 && has_ended(run, &by_itself)) ended_s = ht_now_s();
        reap(watch);
        scan(watch);
        start_waiting(watch);
        if (ended_s == 0) continue;
        if (all_done(watch)) break;
        // Where heaptape record was killed, the program may run on: so do its followers.
        if (by_itself && ht_now_s() - ended_s > GRACE_S) stop_running(watch);
        poll(NULL, 0, SCAN_MS / 5);
    }
    print_results(watch, results);
    tidy_up(watch);
    _exit(0);
}

bool run_converter_start(struct run_converter *converter, const char *folder, const char *run_id,
                         bool quiet) {
    int run[2], results[2];
    if (pipe2(run, O_CLOEXEC)) return false;
    if (pipe2(results, O_CLOEXEC)) {
        close(run[0]);
        close(run[1]);
        return false;
    }
    fflush(NULL);
    converter->pid = fork();
    if (converter->pid == 0) {
        struct watch watch = {.folder = folder, .run_id = run_id, .quiet = quiet};
        close(run[1]);
        close(results[0]);
        watch_run(&watch, run[0], results[1]);
    }
    close(run[0]);
    close(results[1]);
    converter->run = run[1];
    converter->results = results[0];
    return converter->pid > 0;
}

static int main_first(const void *a, const void *b) {
    const struct converted *left = a, *right = b;
    if (left->complete != right->complete) return left->complete ? -1 : 1;
    uint64_t left_rank = shell_log_rank(left->shell, left->events),
             right_rank = shell_log_rank(right->shell, right->events);
    return (left_rank < right_rank) - (left_rank > right_rank);
}

static bool read_result(int results, struct converted *result) {
    char *at = (char *)result;
    size_t left = sizeof *result;
    while (left) {
        ssize_t got = read(results, at, left);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        left -= (size_t)got;
    }
    return true;
}

bool run_converter_finish(struct run_converter *converter, struct converted **results, size_t *count) {
    struct converted *one = malloc(sizeof *one);
    const char ended = 1;
    *results = NULL;
    *count = 0;
    signal(SIGPIPE, SIG_IGN);                              // it may have been killed
    if (write(converter->run, &ended, sizeof ended) < 0) { /* it sees the pipe's end then */
    }
    close(converter->run);
    while (one && read_result(converter->results, one)) {
        struct converted *larger = realloc(*results, (*count + 1) * sizeof *larger);
        if (!larger) break;
        *results = larger;
        larger[(*count)++] = *one;
    }
    close(converter->results);
    int status = -1;
    while (waitpid(converter->pid, &status, 0) < 0 && errno == EINTR) continue;
    if (*count) qsort(*results, *count, sizeof **results, main_first);
    bool complete = one && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    free(one);
    return complete;
}
