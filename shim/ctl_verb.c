// heaptape ctl: pauses, resumes, ends or describes the recording of a running process, by a word in its log's
// header, which that process has mapped. No signal, no debugger: the process looks at the word when it
// allocates.
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "raw_reader.h"
#include "stop_reason.h"
#include "talk.h"
#include "verbs.h"

enum { WAIT_STEPS = 200, STEP_NS = 10000000 };

struct options {
    pid_t pid;
    const char *action;
    bool quiet;
};

static const struct argp_option option_table[] = {
    {"quiet", 'q', NULL, 0, "Say nothing unless something is wrong", 0}, {0}};

static bool is_action(const char *word) {
    static const char *const actions[] = {"pause", "resume", "stop", "status"};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (!strcmp(word, actions[i])) return true;
    return false;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    char *end;
    switch (key) {
    case 'q': options->quiet = true; return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num == 0) {
            long pid = strtol(value, &end, 10);
            if (end == value || *end || pid < 1 || pid > INT_MAX)
                argp_error(state, "a process id expected, not '%s'", value);
            options->pid = (pid_t)pid;
        } else if (state->arg_num == 1 && is_action(value)) {
            options->action = value;
        } else {
            argp_error(state, "pause, resume, stop or status expected, not '%s'", value);
        }
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < 2) argp_error(state, "which process, and what to do?");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    option_table,
    parse_option,
    "PID pause|resume|stop|status",
    "Control the recording of the running process PID.\v"
    "Each time from a start to a pause makes a log of its own. A process notices "
    "when it next allocates; stop is for good.",
    NULL,
    NULL,
    NULL};

// The path of the newest log that the process has mapped: the first window of address space under the name,
// with the highest sequence number. Returns 0, or -1 with errno (ENOENT: none; ESTALE: removed).
static int find_log(pid_t pid, char path[PATH_MAX]) {
    char name[64], line[PATH_MAX + 256], found[PATH_MAX];
    unsigned best = 0;
    bool any = false, any_removed = false;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "re");
    if (!maps) return -1;
    snprintf(name, sizeof name, "/malloc-footprint.");
    while (fgets(line, sizeof line, maps)) {
        const char *start = strchr(line, '/');
        const char *last = start ? strrchr(start, '/') : NULL;
        if (!last || strncmp(last, name, strlen(name)) || sscanf(start, "%4095[^\n]", found) != 1) continue;
        unsigned owner = 0, sequence = 0;
        sscanf(last + strlen(name), "%u.%u", &owner, &sequence);
        size_t length = strlen(found);
        bool removed = length > 10 && !strcmp(found + length - 10, " (deleted)");
        any_removed |= removed;
        if (removed || (any && sequence < best)) continue;
        any = true;
        best = sequence;
        strcpy(path, found);
    }
    fclose(maps);
    if (!any) errno = any_removed ? ESTALE : ENOENT;
    return any ? 0 : -1;
}

static const char *state_words(const struct ht_raw_header *header, char text[HT_STOP_TEXT_BYTES + 32]) {
    char why[HT_STOP_TEXT_BYTES];
    switch (header->state) {
    case HT_RAW_RECORDING: return "recording";
    case HT_RAW_PAUSED: return "paused, and nothing recorded yet";
    case HT_RAW_EXITED: return "at its end";
    default:
        if (header->stop_reason == HT_STOP_CONTROL && header->control != HT_CONTROL_STOP) return "paused";
        snprintf(text, HT_STOP_TEXT_BYTES + 32, "stopped: %s",
                 ht_stop_words(header, why) ? why : "no reason given");
        return text;
    }
}

static int say_status(const char *path) {
    struct ht_raw_log log;
    struct ht_error error;
    uint64_t calls;
    uint32_t threads;
    char text[HT_STOP_TEXT_BYTES + 32], count[32], size[32];
    if (ht_raw_open(&log, path, &error)) return ht_complain("heaptape ctl", &error);
    int failed = ht_raw_count_calls(&log, &calls, &threads, &error);
    if (!failed)
        printf("%s: %s calls, %" PRIu32 " thread%s, %s\n%s\n", state_words(&log.header, text),
               ht_grouped(count, calls), threads, threads == 1 ? "" : "s",
               ht_bytes(size, (double)(log.windows_end - HT_RAW_HEADER_BYTES)), path);
    ht_raw_close(&log);
    return failed ? ht_complain("heaptape ctl", &error) : ht_stdout_status("heaptape ctl", HT_EXIT_DONE);
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
    if (header->state == HT_RAW_STOPPED && !paused) return "its recording has ended for good";
    if (wanted == HT_CONTROL_RUN && !paused) return "it is recording already";
    if (wanted == HT_CONTROL_PAUSE && paused) return "it is paused already";
    return NULL;
}

static bool is_recording(const char *path) {
    struct ht_raw_log log;
    struct ht_error error;
    if (ht_raw_open(&log, path, &error)) return false;
    bool recording = log.header.state == HT_RAW_RECORDING;
    ht_raw_close(&log);
    return recording;
}

static int command(struct ht_raw_header *header, const struct options *options, const char *path) {
    enum ht_control wanted = !strcmp(options->action, "resume")  ? HT_CONTROL_RUN
                             : !strcmp(options->action, "pause") ? HT_CONTROL_PAUSE
                                                                 : HT_CONTROL_STOP;
    const char *why = refusal(header, wanted);
    if (why) {
        fprintf(stderr, "heaptape ctl: process %d: %s\n", (int)options->pid, why);
        return HT_EXIT_FAILED;
    }
    uint32_t before = header->state;
    __atomic_store_n(&header->control, wanted, __ATOMIC_RELEASE);
    for (int i = 0; i < WAIT_STEPS && !has_obeyed(header, wanted, before); i++)
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    bool obeyed = has_obeyed(header, wanted, before);
    char newest[PATH_MAX];
    if (obeyed && wanted == HT_CONTROL_RUN) {
        if (!find_log(options->pid, newest)) path = newest;
        if (!is_recording(path)) {
            fprintf(stderr, "heaptape ctl: process %d cannot begin a new log beside %s\n", (int)options->pid,
                    path);
            return HT_EXIT_FAILED;
        }
    }
    if (!options->quiet)
        fprintf(stderr, "process %d: %s%s (%s)\n", (int)options->pid,
                wanted == HT_CONTROL_RUN     ? "resumed"
                : wanted == HT_CONTROL_PAUSE ? "paused"
                                             : "stopped",
                obeyed ? "" : " as soon as it allocates", path);
    return HT_EXIT_DONE;
}

int ht_verb_ctl(int argc, char **argv) {
    struct options options = {0};
    char path[PATH_MAX];
    argp_parse(&parser, argc, argv, 0, NULL, &options);
    if (find_log(options.pid, path)) {
        fprintf(stderr, "heaptape ctl: process %d: %s\n", (int)options.pid,
                errno == ENOENT   ? "it is not there, or the recorder is not in it"
                : errno == ESTALE ? "its log was removed, and with it the way to control it"
                                  : strerror(errno));
        return HT_EXIT_FAILED;
    }
    if (!strcmp(options.action, "status")) return say_status(path);
    struct ht_raw_log log;
    struct ht_error error;
    if (ht_raw_open(&log, path, &error)) return ht_complain("heaptape ctl", &error);
    ht_raw_close(&log);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    void *header =
        fd < 0 ? MAP_FAILED : mmap(NULL, HT_RAW_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED) {
        fprintf(stderr, "heaptape ctl: %s: %s\n", path, strerror(errno));
        if (fd >= 0) close(fd);
        return HT_EXIT_FAILED;
    }
    int status = command(header, &options, path);
    munmap(header, HT_RAW_HEADER_BYTES);
    close(fd);
    return status;
}
