// SPDX-License-Identifier: Apache-2.0
// heaptape ctl: pauses, resumes, ends or describes the recording of a running process, by a word in its log's
// header, which that process has mapped. No signal, no debugger: the process reads the word when it
// allocates.
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
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
#include "raw_reader.h"
#include "raw_state.h"
#include "talk.h"
#include "verbs.h"

// ---- the log that a running process writes, whichever its namespaces ----

struct process_log {
    struct ht_raw_log log;
    char name[PATH_MAX];  // as the process sees it
};

// A mapping of a file: a line of /proc/PID/maps.
struct mapped_file {
    uint64_t start, end, inode;
    unsigned major, minor;
    char path[PATH_MAX];
};

static bool read_line(const char *line, struct mapped_file *file) {
    return sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %x:%x %" SCNu64 " %4095[^\n]", &file->start,
                  &file->end, &file->major, &file->minor, &file->inode, file->path) == 6;
}

static FILE *open_maps(const char *process) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%s/maps", process);
    return fopen(name, "re");
}

// The number that the process has for itself: in a container another than ours. If the kernel does not report it, this is ours.
static unsigned own_number(pid_t pid) {
    char line[512];
    unsigned number = (unsigned)pid;
    snprintf(line, sizeof line, "/proc/%d/status", (int)pid);
    FILE *status = fopen(line, "re");
    while (status && fgets(line, sizeof line, status)) {
        if (strncmp(line, "NSpid:", 6)) continue;
        const char *last = strrchr(line, '\t');
        if (last) sscanf(last, "%u", &number);
        break;
    }
    if (status) fclose(status);
    return number;
}

static bool is_removed(const char *path) {
    static const char mark[] = " (deleted)";
    size_t length = strlen(path), behind = sizeof mark - 1;
    return length > behind && !strcmp(path + length - behind, mark);
}

// The newest log of that number, which has the highest sequence. A child that shares its parent's memory has the
// parent's log, too.
static int find_mapping(pid_t pid, struct mapped_file *newest) {
    static const char start[] = "/malloc-footprint.";
    char line[PATH_MAX + 256], name[16];
    unsigned number = own_number(pid), best = 0;
    bool any = false, any_removed = false;
    snprintf(name, sizeof name, "%d", (int)pid);
    FILE *maps = open_maps(name);
    if (!maps) return -1;
    while (fgets(line, sizeof line, maps)) {
        struct mapped_file file;
        unsigned owner = 0, sequence = 0;
        if (!read_line(line, &file)) continue;
        const char *last = strrchr(file.path, '/');
        if (!last || strncmp(last, start, sizeof start - 1)) continue;
        if (sscanf(last + sizeof start - 1, "%u.%u", &owner, &sequence) < 1 || owner != number) continue;
        any_removed |= is_removed(file.path);
        if (is_removed(file.path) || (any && sequence <= best)) continue;
        any = true;
        best = sequence;
        *newest = file;
    }
    fclose(maps);
    if (!any) errno = any_removed ? ESTALE : ENOENT;
    return any ? 0 : -1;
}

// Whether the open file is the one in the mapping. Device and inode of both come from the same place, because
// those of fstat differ from it on some file systems (overlayfs, btrfs).
static bool is_the_file(int fd, const struct mapped_file *wanted) {
    char line[PATH_MAX + 256];
    void *own = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    FILE *maps = own == MAP_FAILED ? NULL : open_maps("self");
    bool same = false;
    while (maps && fgets(line, sizeof line, maps)) {
        struct mapped_file file;
        if (!read_line(line, &file) || file.start != (uintptr_t)own) continue;
        same = file.inode == wanted->inode && file.major == wanted->major && file.minor == wanted->minor;
        break;
    }
    if (maps) fclose(maps);
    if (own != MAP_FAILED) munmap(own, 1);
    return same;
}

// 1 if the log is there and is the one, 0 if not, -1 with error if it is the one, but no sound log.
static int try_path(struct ht_raw_log *log, const char *path, const struct mapped_file *wanted,
                    struct ht_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool same = fd >= 0 && is_the_file(fd, wanted);
    if (fd >= 0) close(fd);
    if (!same) return 0;
    if (ht_raw_open(log, path, error)) return -1;
    if (is_the_file(log->fd, wanted)) return 1;
    ht_raw_close(log);
    return 0;
}

// Opens the newest log that the process itself writes. It opens the very file that the process has mapped: in another mount
// namespace another file may have that name. 0, or -1 with errno: ENOENT where there is no such process or no log in it; ESTALE
// where its log was removed; EXDEV where it cannot be reached from here; or -1 with errno 0 and error where the file is no
// sound log.
static int process_log_open(struct process_log *found, pid_t pid, struct ht_error *error) {
    struct mapped_file file;
    char by_root[PATH_MAX + 64], by_mapping[96];
    if (find_mapping(pid, &file)) return -1;
    snprintf(by_root, sizeof by_root, "/proc/%d/root%s", (int)pid, file.path);
    snprintf(by_mapping, sizeof by_mapping, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)pid, file.start,
             file.end);
    const char *const ways[] = {file.path, by_root, by_mapping};
    snprintf(found->name, sizeof found->name, "%s", file.path);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int got = try_path(&found->log, ways[i], &file, error);
        if (got > 0) return 0;
        errno = 0;
        if (got < 0) return -1;
    }
    errno = EXDEV;
    return -1;
}

static void process_log_close(struct process_log *found) { ht_raw_close(&found->log); }

// ---- the verb ----

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

// Prints the group of the process and those that it has forked, if they share pages.
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

// The header will say so once the process has obeyed.
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
