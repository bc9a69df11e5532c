// SPDX-License-Identifier: Apache-2.0
#include "check_run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "context_words.h"
#include "print.h"
#include "raw_state.h"
#include "talk.h"

// A second run that takes so much longer waits for something that the first one used up.
static const double LIMIT_TIMES = 3, LIMIT_MORE_S = 10;

bool check_run_begin(struct check_run *check) {
    struct stat status;
    check->input_at = -1;
    if (fstat(STDIN_FILENO, &status)) return true;  // there is none
    if (S_ISREG(status.st_mode)) check->input_at = lseek(STDIN_FILENO, 0, SEEK_CUR);
    if (!S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode)) return true;
    ht_print(
        stderr,
        "heaptape record: --check: standard input is a %s, which cannot be read twice: expected a file, a "
        "terminal or < /dev/null\n",
        S_ISFIFO(status.st_mode) ? "pipe" : "socket");
    return false;
}

// Terminals and devices show the output of both runs. A file or a pipe is for somebody who expects it once; instead of it
// there is a pipe that costs the program as much.
static void open_outputs(struct run_alone *alone) {
    struct stat status;
    int ends[2];
    bool goes[2];
    for (int i = 0; i < 2; i++) goes[i] = !fstat(STDOUT_FILENO + i, &status) && !S_ISCHR(status.st_mode);
    if ((!goes[0] && !goes[1]) || pipe2(ends, O_CLOEXEC)) return;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    alone->output = ends[0];
    for (int i = 0; i < 2; i++) alone->into[i] = goes[i] ? ends[1] : -1;
}

static void close_outputs(const struct run_alone *alone) {
    if (alone->output < 0) return;
    close(alone->output);
    close(alone->into[0] >= 0 ? alone->into[0] : alone->into[1]);
}

static bool one_still_runs(const struct found_logs *found) {
    struct ht_raw_log log;
    struct ht_error error;
    bool runs = false;
    for (size_t i = 0; i < found->count && !runs; i++) {
        if (ht_raw_open(&log, found->log[i].path, &error)) continue;
        runs = ht_raw_in_use(&log);
        ht_raw_close(&log);
    }
    return runs;
}

// Why the program is not to be run again, or NULL.
static const char *reason_against(const struct ending *recorded, const struct found_logs *found) {
    if (WIFSIGNALED(recorded->wait_status)) return "a signal ended it";
    if (one_still_runs(found)) return "a process of it still runs";
    return NULL;
}

static const char *ending_words(char words[64], const struct ending *ending) {
    if (ending->too_long) snprintf(words, 64, "had not ended after %.0f s", ending->took_s);
    else if (WIFSIGNALED(ending->wait_status))
        snprintf(words, 64, "was ended by signal %d", WTERMSIG(ending->wait_status));
    else snprintf(words, 64, "ended with status %d", WEXITSTATUS(ending->wait_status));
    return words;
}

static bool run_again(const struct check_run *check, const struct recorded_run *run,
                      const struct ending *recorded, struct ending *again) {
    struct run_alone alone = {
        .limit_s = LIMIT_TIMES * recorded->took_s + LIMIT_MORE_S, .output = -1, .into = {-1, -1}};
    const struct recorded_run plain = {.command = run->command, .peak_for_s = INFINITY, .alone = &alone};
    if (check->input_at >= 0 && lseek(STDIN_FILENO, check->input_at, SEEK_SET) < 0) return false;
    open_outputs(&alone);
    bool ran = recorded_run(&plain, again);
    close_outputs(&alone);
    return ran;
}

// The log that matters, if it is of the process that was started. NULL where another process used more: its peak is not the
// one that was looked at.
static const struct found_log *log_of_program(const struct found_logs *found, pid_t pid) {
    return found->count && (pid_t)found->log[0].header.pid == pid ? &found->log[0] : NULL;
}

static void note(const struct found_log *log, const struct run_check *figures) {
    char string[RUN_CHECK_BYTES];
    struct ht_raw_log raw;
    struct ht_error error;
    run_check_string(string, figures);
    if (ht_raw_open(&raw, log->path, &error)) {
        ht_complain("heaptape record", &error);
        return;
    }
    if (!ht_raw_add_context(&raw, string))
        ht_print(stderr, "heaptape record: --check: cannot note it in %s: %s\n", log->path, strerror(errno));
    ht_raw_close(&raw);
}

// Memory is looked at every 0.2 ms and more, which has to be often for a peak to be seen.
static const double PEAK_SEEN_S = 0.02;

// NULL: it is compared.
static const char *why_no_peak(const struct found_log *log, const struct ending *recorded,
                               const struct ending *again) {
    bool looked = recorded->rss_peak_bytes && again->rss_peak_bytes;
    if (!log) return "a process that it started used more";
    return looked && recorded->took_s >= PEAK_SEEN_S && again->took_s >= PEAK_SEEN_S
               ? NULL
               : "it ended too soon for its peak to be seen";
}

static void say(const struct check_run *check, const struct run_check *figures, const char *no_peak) {
    char words[RUN_CHECK_WORDS_BYTES], recorded[32], alone[32];
    if (check->quiet) return;
    if (!no_peak) ht_print(stderr, "%s\n", run_check_words(words, figures));
    else
        ht_print(stderr, "recorded %s s, alone %s s (CPU); %s: peak RSS is not compared\n",
                 ht_figures(recorded, (double)figures->recorded_cpu_ns / 1e9, 2),
                 ht_figures(alone, (double)figures->alone_cpu_ns / 1e9, 2), no_peak);
}

void check_run_do(const struct check_run *check, const struct recorded_run *run,
                  const struct ending *recorded, const struct found_logs *found) {
    char first[64], second[64];
    struct ending again;
    if (check->within_s <= 0 || recorded->took_s > check->within_s) return;
    const char *why = reason_against(recorded, found);
    if (why) {
        if (!check->quiet)
            ht_print(stderr, "heaptape record: --check: %s is not run once more: %s\n", run->command[0], why);
        return;
    }
    if (!check->quiet) ht_print(stderr, "heaptape record: once more without the recorder\n");
    if (!run_again(check, run, recorded, &again)) {
        ht_print(stderr, "heaptape record: --check: cannot run %s once more: %s\n", run->command[0],
                 strerror(errno));
        return;
    }
    if (again.too_long || again.wait_status != recorded->wait_status) {
        ht_print(
            stderr,
            "heaptape record: --check: recorded, %s %s; once more without the recorder it %s: nothing is compared\n",
            run->command[0], ending_words(first, recorded), ending_words(second, &again));
        return;
    }
    const struct run_check figures = {.recorded_rss_peak_bytes = recorded->rss_peak_bytes,
                                      .recorded_cpu_ns = (uint64_t)recorded->cpu_ns,
                                      .alone_rss_peak_bytes = again.rss_peak_bytes,
                                      .alone_cpu_ns = (uint64_t)again.cpu_ns};
    const struct found_log *log = log_of_program(found, recorded->pid);
    const char *no_peak = why_no_peak(log, recorded, &again);
    if (!no_peak) note(log, &figures);
    say(check, &figures, no_peak);
}
