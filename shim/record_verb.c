// heaptape record: runs a program with the shim preloaded, passes on its signals and exit status, and says
// what came of it.
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "file_systems.h"
#include "found_logs.h"
#include "own_functions.h"
#include "reachable.h"
#include "run_converter.h"
#include "stop_reason.h"
#include "talk.h"
#include "verbs.h"

enum { TMPFS_MAGIC_NUMBER = 0x01021994, LOW_SPACE_BYTES = 1 << 30, LOG_BYTES_MIN = 64 << 10 };

struct options {
    const char *directory, *only, *start;
    uint64_t log_bytes_max;
    bool quiet, verbose, converts, any_folder;
    int command_at;  // index of the command in argv
};

enum { KEY_ONLY = 0x100, KEY_START, KEY_MAX_SIZE, KEY_CONVERT, KEY_ANY_FOLDER };
static const struct argp_option option_table[] = {
    {"output", 'o', "DIR", 0, "Write the raw logs into DIR (default: $MALLOC_WRAP_OUT; or /tmp, or /dev/shm where /tmp is no place for them)", 0},
    {"only", KEY_ONLY, "NAME,...", 0,
     "Record only processes of these names; * and ? stand for any characters", 0},
    {"start", KEY_START, "WHEN", 0,
     "Begin after WHEN seconds, in each process; or 'paused', until heaptape ctl PID resume", 0},
    {"max-size", KEY_MAX_SIZE, "SIZE", 0, "End a process's recording when its log has SIZE bytes (k, M, G)",
     0},
    {"convert", KEY_CONVERT, NULL, 0,
     "Make traces while the program runs, in the same folder; raw logs go when their trace is complete", 0},
    {"any-folder", KEY_ANY_FOLDER, NULL, 0,
     "Record also where a full disk or a lost server would end PROGRAM: on btrfs, ZFS, network file systems", 0},
    {"quiet", 'q', NULL, 0, "Say nothing unless something is wrong", 0},
    {"verbose", 'v', NULL, 0, "List the log of every process", 0},
    {0}};

// A number of bytes, with a decimal multiple. 0 if it is none.
static uint64_t parse_size(const char *text) {
    char *end;
    double value = strtod(text, &end), factor = 1;
    switch (*end) {
    case 'k':
    case 'K': factor = 1e3; break;
    case 'm':
    case 'M': factor = 1e6; break;
    case 'g':
    case 'G': factor = 1e9; break;
    }
    end += factor > 1;
    return end == text || *end || !(value * factor >= 1 && value * factor < 9e18)
               ? 0
               : (uint64_t)(value * factor);
}

static bool is_start(const char *text) {
    char *end;
    double seconds = strtod(text, &end);
    return !strcmp(text, "paused") || (strspn(text, "0123456789.") == strlen(text) && end != text && !*end &&
                                       seconds > 0 && seconds < 1e9);
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->directory = value; return 0;
    case 'q': options->quiet = true; return 0;
    case 'v': options->verbose = true; return 0;
    case KEY_CONVERT: options->converts = true; return 0;
    case KEY_ANY_FOLDER: options->any_folder = true; return 0;
    case KEY_ONLY: options->only = value; return 0;
    case KEY_START:
        if (!is_start(value)) argp_error(state, "--start takes 'paused' or seconds, not '%s'", value);
        options->start = value;
        return 0;
    case KEY_MAX_SIZE:
        options->log_bytes_max = parse_size(value);
        if (options->log_bytes_max < LOG_BYTES_MIN)
            argp_error(state, "--max-size takes bytes, 64k or more, not '%s'", value);
        return 0;
    case ARGP_KEY_ARG:
        // The first word that is no option begins the command; everything behind it is the command's own.
        options->command_at = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS: argp_error(state, "which program?"); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {option_table,
                                   parse_option,
                                   "[--] PROGRAM [ARGUMENT...]",
                                   "Run PROGRAM and record every call of the malloc family that it makes.",
                                   NULL,
                                   NULL,
                                   NULL};

// The shims stand beside this program in the build tree, and in the library folder once installed.
static bool find_library(const char *name, char path[PATH_MAX]) {
    static const char *const places[] = {"", "../" HEAPTAPE_LIBDIR "/", "../lib/", "../lib64/"};
    char self[PATH_MAX], candidate[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return false;
    self[length] = 0;
    *(strrchr(self, '/') + 1) = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(candidate, sizeof candidate, "%s%s%s", self, places[i], name);
        if (realpath(candidate, path)) return true;
    }
    return false;
}

static void warn_about_directory(const char *directory) {
    struct statfs status;
    char text[32];
    if (statfs(directory, &status)) return;
    uint64_t available = (uint64_t)status.f_bavail * (uint64_t)status.f_bsize;
    if (status.f_type == TMPFS_MAGIC_NUMBER)
        fprintf(stderr,
                "heaptape record: warning: %s is in memory: a long recording belongs on a disk (-o DIR)\n",
                directory);
    if (available < LOW_SPACE_BYTES)
        fprintf(stderr, "heaptape record: warning: %s has only %s left; the recording ends when it is full\n",
                directory, ht_bytes(text, (double)available));
}

static void say_nothing_recorded(const char *name, const struct found_logs *found, const char *directory) {
    char why[HT_STOP_TEXT_BYTES];
    fprintf(stderr, "heaptape record: %s made no call that could be recorded: ", name);
    if (!found->count)
        fprintf(stderr,
                "no log was written into %s (to begin one takes space there, and a thread: RLIMIT_NPROC, "
                "pids.max)\n",
                directory);
    else if (ht_stopped_early(&found->log[0].header) && ht_stop_words(&found->log[0].header, why))
        fprintf(stderr, "%s: %s\n", found->log[0].path, why);
    else if (found->log[0].header.state == HT_RAW_PAUSED)
        fprintf(stderr, "%s was paused all the time\n", found->log[0].path);
    else fprintf(stderr, "%s is empty\n", found->log[0].path);
}

static void say_cost(const struct found_logs *found) {
    double append_ns = 0, upkeep_ns = 0;
    for (size_t i = 0; i < found->count; i++) {
        append_ns += found->log[i].append_ns;
        upkeep_ns += found->log[i].upkeep_ns;
    }
    if (append_ns > 0)
        fprintf(stderr, "; it took %.2g s of CPU or more, %.0f ns a call", (append_ns + upkeep_ns) / 1e9,
                append_ns / (double)found->calls);
}

static void say_logs(const struct found_logs *found, bool verbose) {
    uint64_t threads = 0;
    char text[32], size[32], why[HT_STOP_TEXT_BYTES];
    for (size_t i = 0; i < found->count; i++) threads += found->log[i].threads;
    const struct found_log *first = &found->log[0];
    fprintf(stderr, "recorded %s calls, %zu process%s, %" PRIu64 " thread%s: %s (%s)",
            ht_grouped(text, found->calls), found->processes, found->processes == 1 ? "" : "es", threads,
            threads == 1 ? "" : "s", first->path, ht_bytes(size, (double)first->bytes));
    say_cost(found);
    fputc('\n', stderr);
    for (size_t i = verbose ? 0 : found->count; i < found->count; i++)
        fprintf(stderr, "  %s calls: %s (%s)\n", ht_grouped(text, found->log[i].calls), found->log[i].path,
                ht_bytes(size, (double)found->log[i].bytes));
    if (found->count > 1 && !verbose)
        fprintf(stderr, "  and %zu more in the same folder (-v lists them); this one has the most calls\n",
                found->count - 1);
    for (size_t i = 0; i < found->count; i++)
        if (ht_stopped_early(&found->log[i].header) && ht_stop_words(&found->log[i].header, why))
            fprintf(stderr, "heaptape record: warning: %s: the recording stopped early: %s\n",
                    found->log[i].path, why);
    const char *name = strrchr(first->path, '/') + 1;
    fprintf(stderr, "next: heaptape convert %s -o %.*s.bin\n", first->path, (int)(strlen(name) - 5), name);
}

// Calls from there were not seen, so blocks that cross the border make foreign frees and anomalies.
static void warn_about_bypass(const struct found_logs *found) {
    for (size_t i = 0; i < found->count; i++) {
        if (!found->log[i].bypassed_by) continue;
        fprintf(stderr, "heaptape record: warning: %s: not recorded, because loaded with RTLD_DEEPBIND: %s\n",
                found->log[i].path, found->log[i].bypassed_by);
        return;
    }
}

static void warn_about_program(const struct found_logs *found, const struct options *options,
                               const struct ending *ending) {
    if (found->of_program && !found->to_the_end)
        fprintf(stderr,
                "heaptape record: warning: the program ended as '%s', of which nothing was recorded\n",
                ending->name);
    else if (!found->of_program && !options->only)
        fputs("heaptape record: warning: the program itself left no log; what was recorded is of processes "
              "that "
              "it started\n",
              stderr);
}

static int status_of(const struct ending *ending) {
    return WIFSIGNALED(ending->wait_status) ? 128 + WTERMSIG(ending->wait_status)
                                            : WEXITSTATUS(ending->wait_status);
}

// What came of it. Returns the exit status.
static int conclude(const struct options *options, const struct recorded_run *run,
                    const struct ending *ending) {
    struct found_logs found;
    int status = status_of(ending);
    found_logs_of_run(&found, run, ending);
    if (found.calls) {
        if (!options->quiet) say_logs(&found, options->verbose);
        warn_about_program(&found, options, ending);
        warn_about_bypass(&found);
    } else if (status != 127 && status != 126) {
        say_nothing_recorded(run->command[0], &found, run->directory);
        if (!status) status = HT_EXIT_FAILED;
    }
    found_logs_free(&found);
    return status;
}

static void say_traces(const struct converted *result, size_t count, bool verbose) {
    char text[32], size[32];
    uint64_t calls = 0;
    size_t complete = 0;
    for (size_t i = 0; i < count; i++) {
        calls += result[i].events;
        complete += result[i].complete;
    }
    if (complete)
        fprintf(stderr, "recorded %s calls, %zu trace%s: %s (%s)\n", ht_grouped(text, calls), complete,
                complete == 1 ? "" : "s", result->trace, ht_bytes(size, (double)result->file_bytes));
    for (size_t i = verbose ? 0 : complete; i < complete; i++)
        fprintf(stderr, "  %s calls: %s (%s)\n", ht_grouped(text, result[i].events), result[i].trace,
                ht_bytes(size, (double)result[i].file_bytes));
    if (complete > 1 && !verbose)
        fprintf(stderr, "  and %zu more in the same folder (-v lists them); this one has the most calls\n",
                complete - 1);
    for (size_t i = complete; i < count; i++)
        fprintf(stderr, "%s %s: heaptape convert --follow %s -o %s goes on\n", result[i].trace,
                result[i].running ? "is not complete, its process still runs" : "was not completed",
                result[i].raw, result[i].trace);
    if (complete) fprintf(stderr, "next: replay --alloc all %s\n", result->trace);
}

// What came of it where the logs became traces at once. Returns the exit status.
static int conclude_converted(const struct options *options, const struct recorded_run *run,
                              const struct ending *ending, struct run_converter *converter) {
    struct converted *results;
    size_t count;
    int status = status_of(ending);
    if (!run_converter_finish(converter, &results, &count)) {
        fprintf(stderr, "heaptape record: the conversion beside the program failed: see what is in %s\n",
                run->directory);
        free(results);
        return HT_EXIT_FAILED;
    }
    bool incomplete = false;
    for (size_t i = 0; i < count; i++) incomplete |= !results[i].complete && !results[i].running;
    if (count && (!options->quiet || incomplete)) say_traces(results, count, options->verbose);
    if (!count && status != 127 && status != 126) {
        fprintf(stderr,
                "heaptape record: %s made no call that could be recorded: no trace was written into %s\n",
                run->command[0], run->directory);
        if (!status) status = HT_EXIT_FAILED;
    }
    if (incomplete && !status) status = HT_EXIT_FAILED;
    free(results);
    return status;
}

// Where the logs go and which library writes them. 0, or an exit status with a line on stderr.
static int find_places(const struct options *options, char shim[PATH_MAX], char directory[PATH_MAX]) {
    if (!find_library("libmalloc_wrap.so", shim)) {
        fputs("heaptape record: libmalloc_wrap.so is neither beside heaptape nor in its library folder\n",
              stderr);
        return HT_EXIT_FAILED;
    }
    if (strpbrk(shim, " :")) {
        fprintf(stderr, "heaptape record: LD_PRELOAD cannot hold the blank or colon in %s\n", shim);
        return HT_EXIT_FAILED;
    }
    struct statfs status;
    const char *wanted = options->directory ? options->directory : getenv("MALLOC_WRAP_OUT"), *unfit;
    if (!wanted || !*wanted)
        wanted = !options->any_folder && !statfs(LOG_FOLDER_FIRST, &status) && file_system_unfit(&status)
                     ? LOG_FOLDER_SECOND
                     : LOG_FOLDER_FIRST;
    if (!realpath(wanted, directory) || access(directory, W_OK | X_OK)) {
        fprintf(stderr, "heaptape record: cannot write logs into %s: %s\n", wanted, strerror(errno));
        return HT_EXIT_FAILED;
    }
    if (!options->any_folder && !statfs(directory, &status) && (unfit = file_system_unfit(&status))) {
        fprintf(stderr,
                "heaptape record: will not write logs into %s: it is on %s, and the program would end by SIGBUS; "
                "-o %s is safe, --any-folder takes the risk\n",
                directory, unfit, LOG_FOLDER_SECOND);
        return HT_EXIT_FAILED;
    }
    return 0;
}

// A program that calls its allocator by names of its own needs the library that has those names too.
static void choose_shim(const char *executable, char shim[PATH_MAX]) {
    char full[PATH_MAX];
    if (find_library("libmalloc_wrap_full.so", full) && !strpbrk(full, " :") &&
        calls_own_functions(executable, shim, full))
        memcpy(shim, full, sizeof full);
}

int ht_verb_record(int argc, char **argv) {
    struct options options = {0};
    char shim[PATH_MAX], directory[PATH_MAX], id[40];
    struct reach reach;
    struct ending ending;
    uint64_t random[2] = {0};
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &options);
    const char *any_folder = getenv("MALLOC_WRAP_ANY_FOLDER");
    options.any_folder |= any_folder && !strcmp(any_folder, "1");
    char **command = argv + options.command_at;
    int status = find_places(&options, shim, directory);
    if (status) return status;
    reach_of(&reach, command[0], shim);
    if (reach.level == REACH_NONE) {
        fprintf(stderr, "heaptape record: %s %s: there is nothing to record\n", reach.program, reach.why);
        return HT_EXIT_FAILED;
    }
    if (!options.quiet) {
        if (reach.level == REACH_PARTLY)
            fprintf(stderr, "heaptape record: warning: %s %s\n", reach.program, reach.why);
        warn_about_directory(directory);
    }
    choose_shim(reach.executable, shim);
    if (getrandom(random, sizeof random, 0) != sizeof random) random[0] = (uint64_t)getpid();
    snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    struct recorded_run run = {.command = command,
                               .shim = shim,
                               .directory = directory,
                               .id = id,
                               .only = options.only,
                               .start = options.start,
                               .log_bytes_max = options.log_bytes_max,
                               .any_folder = options.any_folder,
                               .says_how_to_resume =
                                   options.start && !strcmp(options.start, "paused") && !options.quiet};
    struct run_converter converter;
    if (options.converts && !run_converter_start(&converter, directory, id, options.quiet)) {
        fprintf(stderr, "heaptape record: cannot convert: %s\n", strerror(errno));
        return HT_EXIT_FAILED;
    }
    if (!recorded_run(&run, &ending)) {
        fprintf(stderr, "heaptape record: cannot start %s: %s\n", command[0], strerror(errno));
        return HT_EXIT_FAILED;
    }
    return options.converts ? conclude_converted(&options, &run, &ending, &converter)
                            : conclude(&options, &run, &ending);
}
