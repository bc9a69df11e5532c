// SPDX-License-Identifier: Apache-2.0
#include "record_talk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "file_systems.h"
#include "json_values.h"
#include "print.h"
#include "raw_state.h"
#include "talk.h"

enum { LOW_SPACE_BYTES = 1 << 30 };

void record_say_directory(const struct record_talk *talk, const char *directory) {
    struct statfs status;
    char text[32];
    if (talk->quiet || ht_folder_status(directory, &status)) return;
    uint64_t available = (uint64_t)status.f_bavail * (uint64_t)status.f_bsize;
    if (file_system_in_memory(&status))
        ht_print(stderr,
                 "heaptape record: warning: %s is in memory: write a long recording to a disk (-o DIR)\n",
                 directory);
    if (available < LOW_SPACE_BYTES)
        ht_print(stderr,
                 "heaptape record: warning: %s has only %s free; the recording ends when it is full\n",
                 directory, ht_bytes(text, (double)available));
}

// ---- warnings ----

// The process with most memory that was not seen, among all that were recorded.
struct unseen {
    struct ht_heap_share share;
    const char *path;
    size_t count;  // of such processes
};

static void take_share(struct unseen *unseen, const struct ht_heap_share *share, const char *path) {
    if (!ht_heap_share_is_small(share)) return;
    unseen->count++;
    if (unseen->path && share->anon_bytes <= unseen->share.anon_bytes) return;
    unseen->share = *share;
    unseen->path = path;
}

static void warn_about_unseen(const struct unseen *unseen) {
    char words[HT_HEAP_SHARE_TEXT_BYTES];
    if (!unseen->count) return;
    ht_print(stderr, "heaptape record: warning: %s: %s", unseen->path,
             ht_heap_share_words(words, &unseen->share));
    if (unseen->count > 1) ht_print(stderr, " (likewise %zu more)", unseen->count - 1);
    fputc('\n', stderr);
}

// The text at this place of struct found_log, of the first log that has one; *path is that log's. NULL: none has.
static const char *first_text(const struct found_logs *found, size_t at, const char **path) {
    for (size_t i = 0; i < found->count; i++) {
        const char *text = *(char *const *)((const char *)&found->log[i] + at);
        *path = found->log[i].path;
        if (text) return text;
    }
    return NULL;
}

// Calls that never come to the recorder: blocks of which it sees one end make foreign frees and anomalies.
static void warn_about_elsewhere(const struct found_logs *found) {
    const char *path, *text;
    if ((text = first_text(found, offsetof(struct found_log, bypassed_by), &path)))
        ht_print(stderr,
                 "heaptape record: warning: %s: libraries loaded with RTLD_DEEPBIND are not recorded: %s\n",
                 path, text);
    if ((text = first_text(found, offsetof(struct found_log, own_malloc), &path)))
        ht_print(
            stderr,
            "heaptape record: warning: %s: calls of a malloc that the program finds by a library's handle "
            "(dlsym) are not recorded: %s\n",
            path, text);
    if ((text = first_text(found, offsetof(struct found_log, namespaces), &path)))
        ht_print(
            stderr,
            "heaptape record: warning: %s: libraries opened by dlmopen have a malloc of their own, whose "
            "calls are not recorded: %s\n",
            path, text);
    if ((text = first_text(found, offsetof(struct found_log, restricted), &path)))
        ht_print(stderr,
                 "heaptape record: warning: %s: the process has forbidden itself this folder (%s): processes "
                 "that it started after that are not recorded\n",
                 path, text);
}

static void warn_about_sites(const struct found_logs *found) {
    const char *path, *text = first_text(found, offsetof(struct found_log, no_sites), &path);
    if (text) ht_print(stderr, "heaptape record: warning: %s: no call sites are recorded: %s\n", path, text);
}

// Warns of stacks that are nearly all different.
static void say_unsited(const struct found_logs *found) {
    uint64_t unsited = 0;
    char text[HT_NUMBER_OF_BYTES];
    for (size_t i = 0; i < found->count; i++) unsited += found->log[i].header.unsited_calls;
    if (unsited)
        ht_print(
            stderr,
            "  %s (%.0f %% of the calls) without a call site: new stacks had taken a quarter of the time, or 56 MB\n",
            ht_number_of(text, unsited, "allocation"), 100 * (double)unsited / (double)found->calls);
}

static void warn_about_program(const struct record_talk *talk, const struct found_logs *found,
                               const struct ending *ending) {
    if (found->of_program && !found->to_the_end)
        ht_print(stderr, "heaptape record: warning: the program became '%s', which was not recorded\n",
                 ending->name);
    else if (!found->of_program && !talk->only_some)
        fputs("heaptape record: warning: the program itself left no log; the logs are of processes that "
              "it started\n",
              stderr);
}

static void warn_about_early_ends(const struct found_logs *found) {
    char why[HT_STOP_TEXT_BYTES];
    for (size_t i = 0; i < found->count; i++)
        if (ht_stopped_early(&found->log[i].header) && ht_stop_words(&found->log[i].header, why))
            ht_print(stderr, "heaptape record: warning: %s: the recording stopped early: %s\n",
                     found->log[i].path, why);
}

void record_say_hooks(const struct record_talk *talk, const char *hooks) {
    if (!talk->hooks || !strcmp(hooks, "set")) return;
    ht_print(
        stderr,
        "heaptape record: warning: the calls of the linked-in allocator are not recorded, since its functions could "
        "not be hooked: %s\n",
        *hooks ? hooks : "the file that ran is not the one that was read");
}

// ---- the result ----

enum { GROUP_SHOWN = 12 };

static void say_group(const struct record_talk *talk) {
    if (!talk->quiet) group_say_peak(talk->group, talk->verbose ? SIZE_MAX : GROUP_SHOWN);
    group_say_hidden(&talk->group->hidden);
}

static const char *cost_text(char text[40], double ns) {
    char figures[32];
    snprintf(text, 40, "%s %s", ht_figures(figures, ns < 1e6 ? ns / 1e3 : ns / 1e9, 2),
             ns < 1e6 ? "us" : "s");
    return text;
}

static void say_cost(const struct found_logs *found, const struct ending *ending) {
    struct recording_cost cost = found_logs_cost(found, ending);
    char least[40], more[40];
    if (!(cost.calls_ns > 0)) return;
    ht_print(stderr, "; recording cost at least %s of CPU (%.0f ns a call), and at most %s more",
             cost_text(least, cost.calls_ns), cost.calls_ns / (double)found->calls,
             cost_text(more, cost.rest_ns));
}

// Names a shell around the program, so that nobody takes its log for the program's.
static void say_shell(const struct found_logs *found, const struct ending *ending) {
    const struct found_log *most = &found->log[0];
    char text[HT_NUMBER_OF_BYTES];
    for (size_t i = 1; i < found->count && !most->shell; i++) {
        const struct found_log *log = &found->log[i];
        if (!log->shell || (pid_t)log->header.pid != ending->pid || log->calls > most->calls / 10) continue;
        ht_print(stderr, "  %s, the shell around it, made %s (%s)\n", log->shell,
                 ht_number_of(text, log->calls, "call"), log->path);
        return;
    }
}

enum { PROCESSES_SHOWN = 5, COMMAND_SHOWN_BYTES = 48 };

static void write_process(FILE *out, const struct found_log *log) {
    char calls[32], cpu[40], peak[32], number[32];
    const char *command = log->command ? log->command : log->executable ? log->executable : "";
    snprintf(number, sizeof number, log->header.sequence ? "%u.%u" : "%u", log->header.pid,
             log->header.sequence);
    bool cut = strlen(command) > COMMAND_SHOWN_BYTES;
    ht_print(out, "  %10s%s %13s %9s %11s  %.*s%s\n", number, log->started ? "*" : " ",
             ht_grouped(calls, log->calls), log->cpu_ns ? cost_text(cpu, (double)log->cpu_ns) : "?",
             log->share.anon_bytes ? ht_bytes(peak, (double)log->share.anon_bytes) : "?", COMMAND_SHOWN_BYTES,
             command, cut ? "..." : "");
}

void record_write_processes(FILE *out, const struct found_logs *found, size_t most) {
    size_t shown = found->count < most ? found->count : most;
    ht_print(out, "  %10s  %13s %9s %11s  %s\n", "process", "calls", "CPU", "RssAnon", "command");
    for (size_t i = 0; i < shown; i++) write_process(out, &found->log[i]);
}

static void say_what_is_there(const struct record_talk *talk, const struct found_logs *found,
                              const struct ending *ending) {
    uint64_t threads = 0;
    char text[HT_NUMBER_OF_BYTES], by[HT_NUMBER_OF_BYTES], on[HT_NUMBER_OF_BYTES], size[32];
    for (size_t i = 0; i < found->count; i++) threads += found->log[i].threads;
    const struct found_log *first = &found->log[0];
    ht_print(stderr, "recorded %s, %s, %s: %s (%s)", ht_number_of(text, found->calls, "call"),
             ht_number_of(by, found->processes, "process"), ht_number_of(on, threads, "thread"), first->path,
             ht_bytes(size, (double)first->bytes));
    int folder_bytes = (int)(strrchr(first->path, '/') - first->path);
    say_cost(found, ending);
    fputc('\n', stderr);
    if (found->count > 1)
        record_write_processes(stderr, found, talk->verbose ? found->count : PROCESSES_SHOWN);
    if (found->count > PROCESSES_SHOWN && !talk->verbose)
        ht_print(stderr, "  and %zu more: heaptape record --list %.*s\n", found->count - PROCESSES_SHOWN,
                 folder_bytes, first->path);
    say_shell(found, ending);
    say_unsited(found);
}

void record_say_logs(const struct record_talk *talk, const struct found_logs *found,
                     const struct ending *ending) {
    struct unseen unseen = {0};
    for (size_t i = 0; i < found->count; i++) take_share(&unseen, &found->log[i].share, found->log[i].path);
    warn_about_unseen(&unseen);
    if (!talk->quiet) say_what_is_there(talk, found, ending);
    say_group(talk);
    warn_about_early_ends(found);
    warn_about_program(talk, found, ending);
    warn_about_elsewhere(found);
    warn_about_sites(found);
    const char *path = found->log[0].path, *name = strrchr(path, '/') + 1;
    bool is_group = talk->group->is_group && !talk->group->write_failed;
    if (talk->quiet) return;
    if (is_group) ht_print(stderr, "next: heaptape convert --group %s -o service.bin\n", talk->group->path);
    else ht_print(stderr, "next: heaptape convert %s -o %.*s.bin\n", path, (int)(strlen(name) - 5), name);
}

void record_say_nothing_recorded(const char *name, const struct found_logs *found, const char *directory) {
    char why[HT_STOP_TEXT_BYTES];
    ht_print(stderr, "heaptape record: %s made no call that could be recorded: ", name);
    if (!found->count)
        ht_print(stderr,
                 "no log was written into %s (a log needs space there, and a thread: RLIMIT_NPROC, "
                 "pids.max)\n",
                 directory);
    else if (ht_stopped_early(&found->log[0].header) && ht_stop_words(&found->log[0].header, why))
        ht_print(stderr, "%s: %s\n", found->log[0].path, why);
    else if (found->log[0].header.state == HT_RAW_PAUSED)
        ht_print(stderr, "%s was paused throughout\n", found->log[0].path);
    else ht_print(stderr, "%s is empty\n", found->log[0].path);
}

// ---- where logs became traces ----

static void say_what_is_complete(const struct record_talk *talk, const struct converted *result,
                                 size_t complete) {
    char text[HT_NUMBER_OF_BYTES], made[HT_NUMBER_OF_BYTES], size[32];
    uint64_t calls = 0;
    for (size_t i = 0; i < complete; i++) calls += result[i].events;
    if (complete)
        ht_print(stderr, "recorded %s, %s: %s (%s)\n", ht_number_of(text, calls, "call"),
                 ht_number_of(made, complete, "trace"), result->trace,
                 ht_bytes(size, (double)result->file_bytes));
    for (size_t i = talk->verbose ? 0 : complete; i < complete; i++)
        ht_print(stderr, "  %s: %s (%s)\n", ht_number_of(text, result[i].events, "call"), result[i].trace,
                 ht_bytes(size, (double)result[i].file_bytes));
    if (complete > 1 && !talk->verbose)
        ht_print(
            stderr,
            "  and %zu more in the same folder (-v lists them); this one is of the program that used most\n",
            complete - 1);
}

void record_say_traces(const struct record_talk *talk, const struct converted *result, size_t count) {
    struct unseen unseen = {0};
    size_t complete = 0;
    for (size_t i = 0; i < count; i++) {
        complete += result[i].complete;  // those come first
        take_share(&unseen, &result[i].share, result[i].trace);
    }
    warn_about_unseen(&unseen);
    if (!talk->quiet) say_what_is_complete(talk, result, complete);
    say_group(talk);
    for (size_t i = complete; i < count; i++)
        ht_print(stderr, "%s %s: resume by heaptape convert --follow %s -o %s\n", result[i].trace,
                 result[i].running ? "is not complete: its process still runs" : "is not complete",
                 result[i].raw, result[i].trace);
    if (complete && !talk->quiet) ht_print(stderr, "next: heaptape replay --alloc all %s\n", result->trace);
}

// ---- --list ----

static const char list_verb[] = "heaptape record";

// CPU time and RssAnon are null where no sample shows them.
static json_t *log_json(const struct found_log *log) {
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:b, s:b, s:o, s:o, s:I, s:i, s:o, s:o}", "log",
                     json_text(log->path), "pid", (json_int_t)log->header.pid, "sequence",
                     (json_int_t)log->header.sequence, "parent_pid", (json_int_t)log->header.parent_pid,
                     "parent_sequence", (json_int_t)log->header.parent_sequence, "started", log->started,
                     "shell", log->shell != NULL, "executable", json_text(log->executable), "command",
                     json_text(log->command), "calls", (json_int_t)log->calls, "threads", (int)log->threads,
                     "cpu_ns", json_count(log->cpu_ns ? log->cpu_ns : UINT64_MAX), "rss_anon_peak_bytes",
                     json_count(log->share.anon_bytes ? log->share.anon_bytes : UINT64_MAX));
}

static void print_json(const struct found_logs *found) {
    json_t *list = json_array();
    for (size_t i = 0; i < found->count; i++) json_array_append_new(list, log_json(&found->log[i]));
    json_t *all = json_pack("{s:o}", "processes", list);
    json_dumpf(all, stdout, JSON_INDENT(1));
    putchar('\n');
    json_decref(all);
}

int log_list_print(const char *folder, bool as_json) {
    struct found_logs found;
    if (!found_logs_in(&found, folder)) {
        ht_print(stderr, "%s: %s: cannot read the folder: %s\n", list_verb, folder, strerror(errno));
        return HT_EXIT_INPUT;
    }
    int status = found.count ? HT_EXIT_DONE : HT_EXIT_INPUT;
    if (!found.count)
        ht_print(stderr, "%s: %s: expected raw logs (malloc-footprint.PID.mraw), found none\n", list_verb,
                 folder);
    else if (as_json) print_json(&found);
    else record_write_processes(stdout, &found, found.count);
    found_logs_free(&found);
    return ht_stdout_status(list_verb, status);
}
