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

#include "all_bytes.h"
#include "conversion_turns.h"
#include "ended_logs.h"
#include "follow.h"
#include "fork_file.h"
#include "grow.h"
#include "now.h"
#include "print.h"
#include "process_rank.h"
#include "raw_state.h"
#include "talk.h"

enum { SCAN_MS = 50 };
// A child that outlives the program by less is waited for.
static const double GRACE_S = 0.5;

struct watch {
    const char *folder, *run_id;
    bool quiet;
    DIR *names;
    double scanned_s;
    char **seen;  // sorted: files that need no further check
    size_t seen_count, seen_room;
    struct conversion **all;  // in the order in which they were found
    size_t count, room;
    struct conversion_turns turns;
    int endings[2];  // a pipe from all followers
};

// A follower's report, short enough for one piece of a pipe.
struct reported_ending {
    pid_t follower;
    struct follow_ending ending;
};

static volatile sig_atomic_t stopped_by;
static void stop(int number) { stopped_by = number; }

// ---- one follower ----

static bool is_taken(const struct watch *watch, const char *trace) {
    char path[PATH_MAX + 16];
    // The file of one at work may not be there yet.
    for (size_t i = 0; i < watch->turns.follows; i++)
        if (!strcmp(watch->turns.followed[i]->result.trace, trace)) return true;
    snprintf(path, sizeof path, "%s.partial", trace);
    return !access(trace, F_OK) || !access(path, F_OK);
}

static bool number_is_taken(const struct watch *watch, const char *raw, unsigned number,
                            char trace[PATH_MAX]) {
    char behind[16] = "";
    if (number > 1) snprintf(behind, sizeof behind, "-%u", number);
    snprintf(trace, PATH_MAX, "%.*s%s.bin", (int)(strlen(raw) - strlen(".mraw")), raw, behind);
    return is_taken(watch, trace);
}

// The trace beside the log: malloc-footprint.PID.bin. If the log of an earlier process of that number has become a trace and
// gone, so that its name was free again, it is malloc-footprint.PID-2.bin and so on, of which there may be thousands: the first
// free number is searched for by steps that double, then by halves.
static bool name_trace(const struct watch *watch, struct converted *result) {
    char trace[PATH_MAX];
    unsigned taken = 1, step = 1;
    if (result->trace) return true;
    if (number_is_taken(watch, result->raw, taken, trace)) {
        for (; number_is_taken(watch, result->raw, taken + step, trace); step *= 2) taken += step;
        while (step /= 2)
            if (number_is_taken(watch, result->raw, taken + step, trace)) taken += step;
        number_is_taken(watch, result->raw, taken + 1, trace);
    }
    result->trace = strdup(trace);
    return result->trace != NULL;
}

static _Noreturn void follow_one(const struct watch *watch, const struct conversion *one) {
    enum { IDLEST = 19 };
    const struct convert_request request = {.input = one->result.raw,
                                            .output = one->result.trace,
                                            .level = 3,
                                            .time_unit_ns = 32,
                                            .quiet = watch->quiet,
                                            .follow = true,
                                            .in_record = true,
                                            .parent_is_followed =
                                                conversion_waits_for_parent(&watch->turns, one)};
    struct sigaction stops = {.sa_handler = stop};
    struct reported_ending reported = {.follower = getpid()};
    struct ht_error error;
    sigaction(SIGTERM, &stops, NULL);
    if (conversion_is_patient(&watch->turns, one) && nice(IDLEST) < 0) { /* it is as the others then */
    }
    int status = follow_log(&request, &stopped_by, &reported.ending, &error);
    // A log without a call is nobody's trouble.
    if (status && !reported.ending.empty) ht_complain("heaptape record", &error);
    if (write(watch->endings[1], &reported, sizeof reported) != sizeof reported) status = -1;
    _exit(status ? 1 : 0);
}

// False: it is tried again at the next scan.
static bool start_follower(struct watch *watch, struct conversion *one) {
    pid_t pid = name_trace(watch, &one->result) ? fork() : -1;
    if (pid == 0) follow_one(watch, one);
    if (pid < 0) return false;
    one->follower = pid;
    conversion_is_followed(&watch->turns, one, ht_now_s());
    return true;
}

static void start_waiting(struct watch *watch) {
    struct conversion *one;
    while ((one = conversion_next(&watch->turns, ht_now_s())) && start_follower(watch, one)) continue;
    one = conversion_to_yield(&watch->turns, ht_now_s());
    if (one) one->yields = !kill(one->follower, SIGTERM);
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

static void forget_seen(struct watch *watch, const char *name) {
    char **found = watch->seen_count
                       ? bsearch(&name, watch->seen, watch->seen_count, sizeof *watch->seen, by_name)
                       : NULL;
    if (!found) return;
    free(*found);
    size_t behind = (size_t)(watch->seen + --watch->seen_count - found);
    memmove(found, found + 1, behind * sizeof *found);
}

static char *copy_of(const struct ht_raw_log *log, const char *key) {
    const char *value = ht_raw_context(log, key);
    return strdup(value ? value : "");
}

// NULL for want of memory.
static struct conversion *begin_conversion(struct watch *watch, const struct ht_raw_log *log) {
    const struct ht_raw_header *header = &log->header;
    const char *hooks = ht_raw_context(log, "linked_hooks");
    if (!ht_grow(&watch->all, &watch->room, watch->count + 1, sizeof *watch->all)) return NULL;
    struct conversion *one = calloc(1, sizeof *one);
    if (!one) return NULL;
    one->start_realtime_ns = header->start_realtime_ns;
    one->found_s = ht_now_s();
    one->own_name = conversion_name(header->pid, header->sequence);
    if (header->parent_pid) one->parent_name = conversion_name(header->parent_pid, header->parent_sequence);
    one->result = (struct converted){.raw = strdup(log->path),
                                     .executable = copy_of(log, "executable"),
                                     .shell = shell_log_name(log) != NULL,
                                     .pid = header->pid};
    snprintf(one->result.hooks, sizeof one->result.hooks, "%s", hooks ? hooks : "");
    if (one->result.raw && one->result.executable && conversion_waits(&watch->turns, one)) return one;
    free(one->result.raw);
    free(one->result.executable);
    free(one);
    return NULL;
}

// Is it a log of this run? One that is half made is checked again.
static void meet(struct watch *watch, const char *name) {
    struct ht_raw_log log;
    struct ht_error error;
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", watch->folder, name) >= (int)sizeof path) return;
    if (ht_raw_open(&log, path, &error)) return;
    bool ours = log_is_of_run(&log, watch->run_id);
    struct conversion *one = ours ? begin_conversion(watch, &log) : NULL;
    if (one) watch->all[watch->count++] = one;
    if (one || !ours) add_seen(watch, name);
    ht_raw_close(&log);
}

static void scan(struct watch *watch) {
    struct dirent *entry;
    double now_s = ht_now_s();
    if (now_s - watch->scanned_s < SCAN_MS / 1e3) return;
    watch->scanned_s = now_s;
    rewinddir(watch->names);
    while ((entry = readdir(watch->names)))
        if (log_has_name(entry->d_name) && !is_seen(watch, entry->d_name)) meet(watch, entry->d_name);
}

// ---- endings ----

static void take_ending(struct watch *watch, const struct reported_ending *reported) {
    for (size_t i = 0; i < watch->turns.follows; i++) {
        struct conversion *one = watch->turns.followed[i];
        if (one->follower != reported->follower) continue;
        one->has_reported = true;
        one->result.events = reported->ending.events;
        one->result.file_bytes = reported->ending.file_bytes;
        one->result.share = reported->ending.share;
        one->result.cpu_ns = reported->ending.cpu_ns;
        one->result.complete = reported->ending.complete;
        one->result.empty = reported->ending.empty;
    }
}

static void read_endings(struct watch *watch) {
    struct reported_ending reported;
    while (read(watch->endings[0], &reported, sizeof reported) == sizeof reported)
        take_ending(watch, &reported);
}

// If its log has gone, another may have come by that name.
static void finish(struct watch *watch, struct conversion *one, int status) {
    struct ht_raw_log log;
    bool has_yielded =
        one->yields && !one->asked_to_stop && status == 0 && !one->result.complete && !one->result.empty;
    conversion_left(&watch->turns, one);
    one->yields = one->has_reported = false;
    if (conversion_open_log(one, &log)) ht_raw_close(&log);
    else forget_seen(watch, strrchr(one->result.raw, '/') + 1);
    if (has_yielded) conversion_waits(&watch->turns, one);
    if (WIFSIGNALED(status))
        ht_print(stderr, "heaptape record: %s: signal %d ended its conversion\n", one->result.raw,
                 WTERMSIG(status));
}

// One that has reported goes at once.
static void reap(struct watch *watch) {
    int status;
    read_endings(watch);
    for (size_t i = watch->turns.follows; i-- > 0;) {
        struct conversion *one = watch->turns.followed[i];
        if (waitpid(one->follower, &status, one->has_reported ? 0 : WNOHANG) <= 0) continue;
        read_endings(watch);  // it reported its ending before it went
        finish(watch, one, status);
    }
}

// After the program's end: followers of what still runs keep their state and go.
static void stop_running(struct watch *watch) {
    for (size_t i = 0; i < watch->count; i++) {
        struct conversion *one = watch->all[i];
        if (one->state == CONVERSION_IS_DONE || one->has_ended || one->asked_to_stop ||
            !conversion_log_is_in_use(one))
            continue;
        one->asked_to_stop = one->result.running = true;
        if (one->state == CONVERSION_IS_FOLLOWED) kill(one->follower, SIGTERM);
        else if (name_trace(watch, &one->result)) conversion_is_given_up(&watch->turns, one);
    }
}

// ---- the watching process ----

static void remove_log(const struct conversion *one) {
    struct ht_raw_log log;
    if (!conversion_open_log(one, &log)) return;
    if (!ht_raw_in_use(&log)) unlink(log.path);
    ht_raw_close(&log);
}

// Logs of phases that ended before their process did, and notes of forks.
static void tidy_up(const struct watch *watch) {
    char path[PATH_MAX];
    for (size_t i = 0; i < watch->count; i++)
        if (watch->all[i]->result.complete) remove_log(watch->all[i]);
    for (size_t i = 0; i < watch->count; i++)
        if (watch->all[i]->result.running) return;  // a child of it may still want its parent's
    for (size_t i = 0; i < watch->count; i++)
        if (fork_file_path(watch->all[i]->result.raw, path, sizeof path)) unlink(path);
}

static bool print_string(int results, const char *string) {
    uint32_t length = (uint32_t)strlen(string);
    return ht_write_all(results, &length, sizeof length) && ht_write_all(results, string, length);
}

static void print_results(const struct watch *watch, int results) {
    for (size_t i = 0; i < watch->count; i++) {
        const struct converted *result = &watch->all[i]->result;
        if (!result->empty &&
            (!ht_write_all(results, result, sizeof *result) || !print_string(results, result->raw) ||
             !print_string(results, result->trace) || !print_string(results, result->executable)))
            return;
    }
}

// True once the program has ended, or the process that ran it. Waits a little for that, or for a follower's end.
static bool has_ended(const struct watch *watch, int run, bool *by_itself) {
    struct pollfd wanted[] = {{.fd = run, .events = POLLIN}, {.fd = watch->endings[0], .events = POLLIN}};
    char word;
    if (poll(wanted, 2, SCAN_MS) <= 0 || !wanted[0].revents) return false;
    *by_itself = read(run, &word, sizeof word) == sizeof word;
    return true;
}

static void wait_for_ending(const struct watch *watch) {
    struct pollfd wanted = {.fd = watch->endings[0], .events = POLLIN};
    poll(&wanted, 1, SCAN_MS / 5);
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
    if (!watch->names || pipe2(watch->endings, O_CLOEXEC | O_NONBLOCK) ||
        !conversion_turns_begin(&watch->turns))
        _exit(1);
    double ended_s = 0;  // 0: it has not
    bool by_itself = true;
    for (;;) {
        if (ended_s == 0 && has_ended(watch, run, &by_itself)) {
            ended_s = ht_now_s();
            watch->scanned_s = 0;
        }
        watch->turns.run_has_ended = ended_s > 0;
        reap(watch);
        scan(watch);
        start_waiting(watch);
        if (ended_s == 0) continue;
        if (!watch->turns.waits && !watch->turns.follows && watch->scanned_s > ended_s) break;
        // If heaptape record was killed, the program may run on: so do its followers.
        if (by_itself && ht_now_s() - ended_s > GRACE_S) stop_running(watch);
        wait_for_ending(watch);
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
    return (left->rank < right->rank) - (left->rank > right->rank);
}

static struct process_use use_of(const struct converted *result, pid_t started) {
    return (struct process_use){.calls = result->events,
                                .cpu_ns = result->cpu_ns,
                                .anon_bytes = result->share.anon_bytes,
                                .shell = result->shell,
                                .started = (pid_t)result->pid == started};
}

static void rank(struct converted *results, size_t count, pid_t started) {
    struct process_use most = {0};
    for (size_t i = 0; i < count; i++) {
        struct process_use use = use_of(&results[i], started);
        process_use_most(&most, &use);
    }
    for (size_t i = 0; i < count; i++) {
        struct process_use use = use_of(&results[i], started);
        results[i].rank = process_rank(&use, &most);
    }
    if (count) qsort(results, count, sizeof *results, main_first);
}

static bool read_all(int results, void *to, size_t left) {
    char *at = to;
    while (left) {
        ssize_t got = read(results, at, left);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        left -= (size_t)got;
    }
    return true;
}

static char *read_string(int results) {
    uint32_t length;
    char *string = read_all(results, &length, sizeof length) ? calloc(1, (size_t)length + 1) : NULL;
    if (!string || read_all(results, string, length)) return string;
    free(string);
    return NULL;
}

static void free_strings(struct converted *result) {
    free(result->raw);
    free(result->trace);
    free(result->executable);
}

// False at their end, or where one is not whole.
static bool read_result(int results, struct converted *result) {
    if (!read_all(results, result, sizeof *result)) return false;
    result->raw = read_string(results);
    result->trace = read_string(results);
    result->executable = read_string(results);
    if (result->raw && result->trace && result->executable) return true;
    free_strings(result);
    return false;
}

void run_converter_free(struct converted *results, size_t count) {
    for (size_t i = 0; i < count; i++) free_strings(&results[i]);
    free(results);
}

bool run_converter_finish(struct run_converter *converter, pid_t started, struct converted **results,
                          size_t *count) {
    struct converted one;
    const char ended = 1;
    size_t room = 0;
    bool fits = true;
    *results = NULL;
    *count = 0;
    signal(SIGPIPE, SIG_IGN);                              // it may have been killed
    if (write(converter->run, &ended, sizeof ended) < 0) { /* it sees the pipe's end then */
    }
    close(converter->run);
    while (fits && read_result(converter->results, &one)) {
        fits = ht_grow(results, &room, *count + 1, sizeof one);
        if (fits) (*results)[(*count)++] = one;
        else free_strings(&one);
    }
    close(converter->results);
    int status = -1;
    while (waitpid(converter->pid, &status, 0) < 0 && errno == EINTR) continue;
    rank(*results, *count, started);
    return fits && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
