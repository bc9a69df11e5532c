// SPDX-License-Identifier: Apache-2.0
// heaptape ctl: pauses, resumes, ends or describes the recording of a running process, by a word in its log's
// header, which that process has mapped. No signal, no debugger: the process reads the word when it
// allocates.
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "group_talk.h"
#include "json_values.h"
#include "option_values.h"
#include "print.h"
#include "process_log.h"
#include "raw_state.h"
#include "talk.h"
#include "verbs.h"

enum { WAIT_STEPS = 200, STEP_NS = 10000000 };

struct options {
    pid_t pid;
    const char *action;
    bool quiet, json;
};

enum { KEY_JSON = 0x100 };
static const struct argp_option option_table[] = {{"json", KEY_JSON, NULL, 0, "With status: print JSON", 0},
                                                  {"quiet", 'q', NULL, 0, "Print only what went wrong", 0},
                                                  {0}};

static bool is_action(const char *word) {
    static const char *const actions[] = {"pause", "resume", "stop", "status"};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(word, actions[i])) return true;
    return false;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    uint64_t pid;
    switch (key) {
    case 'q': options->quiet = true; return 0;
    case KEY_JSON: options->json = true; return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            if (!ht_parse_whole(value, 1, INT_MAX, &pid))
                argp_error(state, "%s: expected a process id", value);
            options->pid = (pid_t)pid;
        } else if (state->arg_num == 1 && is_action(value)) {
            options->action = value;
        } else {
            argp_error(state, "%s: expected one of pause, resume, stop, status", value);
        }
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2) argp_error(state, "expected PID and an action");
        if (options->json && strcmp(options->action, "status"))
            argp_error(state, "--json: expected status with it");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "PID pause|resume|stop|status",
    .doc =
        "Control the recording of the running process PID."
        "\vEach period from a start to a pause has its own log. A process obeys at its next allocation; stop is "
        "final. status prints the processes that PID has forked, too, and which pages they share with it."};

const struct ht_page ht_page_ctl = {
    .name = "ctl",
    .argp = &parser,
    .examples = (const struct ht_fact[]){{"heaptape record --start paused -- ./server",
                                          "Start a server, not recorded yet"},
                                         {"heaptape ctl 4711 resume", "Begin a log, once the load has begun"},
                                         {"heaptape ctl 4711 pause", "End that log"},
                                         {0}},
    .statuses = (const struct ht_fact[]){{"0", "Done"},
                                         {"1", "The process is not recorded, or not in the required state"},
                                         {"2", "Wrong usage"},
                                         {0}},
    .see_also = "record"};

static const char *state_words(const struct ht_raw_header *header, char text[HT_STOP_TEXT_BYTES + 32]) {
    char why[HT_STOP_TEXT_BYTES];
    switch (header->state) {
    case HT_RAW_RECORDING: return "recording";
    case HT_RAW_PAUSED: return "paused; nothing recorded yet";
    case HT_RAW_EXITED: return "at its end";
    default:
        if (header->stop_reason == HT_STOP_CONTROL && header->control != HT_CONTROL_STOP) return "paused";
        snprintf(text, HT_STOP_TEXT_BYTES + 32, "stopped: %s",
                 ht_stop_words(header, why) ? why : "no reason given");
        return text;
    }
}

// Of the process and those that it has forked, if they share pages.
static void say_group(pid_t pid) {
    struct ht_group_snapshot snapshot;
    if (!group_look_now(pid, &snapshot)) return;
    group_write_snapshot(stdout, &snapshot, SIZE_MAX, "");
    ht_group_snapshot_free(&snapshot);
}

static json_t *group_json(pid_t pid) {
    struct ht_group_snapshot snapshot;
    if (!group_look_now(pid, &snapshot)) return json_null();
    json_t *object = group_snapshot_json(&snapshot);
    ht_group_snapshot_free(&snapshot);
    return object;
}

static void print_status_json(const struct options *options, const struct process_log *found, uint64_t calls,
                              uint32_t threads) {
    char text[HT_STOP_TEXT_BYTES + 32];
    json_t *object = json_object();
    json_set_number(object, "pid", (uint64_t)options->pid);
    json_set_text(object, "state", state_words(&found->log.header, text));
    json_set_number(object, "calls", calls);
    json_set_number(object, "threads", threads);
    json_set_number(object, "log_bytes", found->log.chunks_end - HT_RAW_HEADER_BYTES);
    json_set_text(object, "log", found->name);
    json_object_set_new(object, "group", group_json(options->pid));
    json_print(object);
}

static int say_status(const struct options *options, const struct process_log *found) {
    const struct ht_raw_log *log = &found->log;
    struct ht_error error;
    uint64_t calls;
    uint32_t threads;
    char text[HT_STOP_TEXT_BYTES + 32], count[HT_NUMBER_OF_BYTES], on[HT_NUMBER_OF_BYTES], size[32];
    if (ht_raw_count_calls(log, &calls, &threads, &error)) return ht_complain("heaptape ctl", &error);
    if (options->json) {
        print_status_json(options, found, calls, threads);
    } else {
        ht_print(stdout, "%s: %s, %s, %s\n%s\n", state_words(&log->header, text),
                 ht_number_of(count, calls, "call"), ht_number_of(on, threads, "thread"),
                 ht_bytes(size, (double)(log->chunks_end - HT_RAW_HEADER_BYTES)), found->name);
        say_group(options->pid);
    }
    return ht_stdout_status("heaptape ctl", HT_EXIT_DONE);
}

// What the header will say once the process has obeyed.
static bool has_obeyed(const struct ht_raw_header *header, enum ht_control wanted, uint32_t state_before) {
    uint32_t state = __atomic_load_n(&header->state, __ATOMIC_ACQUIRE);
    uint32_t control = __atomic_load_n(&header->control, __ATOMIC_ACQUIRE);
    if (wanted == HT_CONTROL_RUN) return control == HT_CONTROL_NONE;
    return state != state_before || state == HT_RAW_STOPPED;
}

// Why the action makes no sense in this state, or NULL.
static const char *refusal(const struct ht_raw_header *header, enum ht_control wanted) {
    bool paused = header->state == HT_RAW_PAUSED ||
                  (header->state == HT_RAW_STOPPED && header->stop_reason == HT_STOP_CONTROL &&
                   header->control != HT_CONTROL_STOP);
    if (header->state == HT_RAW_STOPPED && !paused) return "its recording has ended and cannot resume";
    if (wanted == HT_CONTROL_RUN && !paused) return "it is already recording";
    if (wanted == HT_CONTROL_PAUSE && paused)
        return header->control == HT_CONTROL_RUN ? "it is about to resume: pause it after its next allocation"
                                                 : "it is already paused";
    return NULL;
}

// After a resume: the log that it writes now, under its name. False if it does not record.
static bool name_newest(pid_t pid, char name[PATH_MAX]) {
    struct process_log newest;
    struct ht_error error;
    if (process_log_open(&newest, pid, &error)) return false;
    bool recording = newest.log.header.state == HT_RAW_RECORDING;
    snprintf(name, PATH_MAX, "%s", newest.name);
    process_log_close(&newest);
    return recording;
}

static int command(struct ht_raw_header *header, const struct options *options, char name[PATH_MAX]) {
    enum ht_control wanted = !strcmp(options->action, "resume")  ? HT_CONTROL_RUN
                             : !strcmp(options->action, "pause") ? HT_CONTROL_PAUSE
                                                                 : HT_CONTROL_STOP;
    const char *why = refusal(header, wanted);
    if (why) {
        ht_print(stderr, "heaptape ctl: process %d: %s\n", (int)options->pid, why);
        return HT_EXIT_FAILED;
    }
    uint32_t before = header->state;
    __atomic_store_n(&header->control, wanted, __ATOMIC_RELEASE);
    for (int i = 0; i < WAIT_STEPS && !has_obeyed(header, wanted, before); i++)
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    bool obeyed = has_obeyed(header, wanted, before);
    if (obeyed && wanted == HT_CONTROL_RUN && !name_newest(options->pid, name)) {
        ht_print(stderr, "heaptape ctl: process %d cannot begin a new log in the folder of %s\n",
                 (int)options->pid, name);
        return HT_EXIT_FAILED;
    }
    if (!options->quiet)
        ht_print(stderr, "process %d: %s%s (%s)\n", (int)options->pid,
                 wanted == HT_CONTROL_RUN     ? "resumed"
                 : wanted == HT_CONTROL_PAUSE ? "paused"
                                              : "stopped",
                 obeyed ? "" : " at its next allocation", name);
    return HT_EXIT_DONE;
}

static int give_command(const struct options *options, struct process_log *found) {
    int fd = ht_raw_open_for_writing(&found->log);
    void *header =
        fd < 0 ? MAP_FAILED : mmap(NULL, HT_RAW_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    if (header == MAP_FAILED) {
        ht_print(stderr, "heaptape ctl: %s: %s\n", found->name, strerror(errno));
        return HT_EXIT_FAILED;
    }
    int status = command(header, options, found->name);
    munmap(header, HT_RAW_HEADER_BYTES);
    return status;
}

static const char *why_not(int number) {
    switch (number) {
    case ENOENT: return "it does not exist, or it runs without the recorder";
    case ESTALE: return "its log was removed, so it cannot be controlled";
    case EXDEV:
        return "its log is in a file system that cannot be reached from here; run heaptape ctl where it runs";
    default: return strerror(number);
    }
}

int ht_verb_ctl(int argc, char **argv) {
    struct options options = {0};
    static struct process_log found;
    struct ht_error error;
    ht_page_parse(&ht_page_ctl, argc, argv, 0, &options);
    if (process_log_open(&found, options.pid, &error)) {
        if (!errno) return ht_complain("heaptape ctl", &error);
        ht_print(stderr, "heaptape ctl: process %d: %s\n", (int)options.pid, why_not(errno));
        return HT_EXIT_FAILED;
    }
    int status =
        !strcmp(options.action, "status") ? say_status(&options, &found) : give_command(&options, &found);
    process_log_close(&found);
    return status;
}
