// SPDX-License-Identifier: Apache-2.0
// heaptape record: runs a program with the shim preloaded, passes on its signals and exit status, and prints
// the result.
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access_run.h"
#include "check_run.h"
#include "file_systems.h"
#include "found_logs.h"
#include "linked_plan.h"
#include "option_values.h"
#include "own_functions.h"
#include "print.h"
#include "raw_layout.h"
#include "reachable.h"
#include "record_talk.h"
#include "run_converter.h"
#include "talk.h"
#include "verbs.h"

enum { LOG_BYTES_MIN = 64 << 10 };

// A status that a program may return as well says nothing of us. So our own failures have the shell's numbers: this, and 126
// and 127 where the program cannot be run or found (recorded_run.c). Wrong usage is 2, as of every verb.
enum { EXIT_RECORD_FAILED = 125, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct options {
    const char *directory, *only, *start, *list;
    uint64_t log_bytes_max;
    char start_text[32];
    struct record_talk talk;
    bool converts, any_folder, accesses, sampled, no_hooks, json, group;
    unsigned site_frames;  // 0: no call sites
    struct check_run check;
    int command_at;  // index of the command in argv
};

enum {
    KEY_ONLY = 0x100,
    KEY_START,
    KEY_MAX_SIZE,
    KEY_CONVERT,
    KEY_ANY_FOLDER,
    KEY_ACCESSES,
    KEY_SAMPLED,
    KEY_SITES,
    KEY_NO_HOOKS,
    KEY_CHECK,
    KEY_GROUP,
    KEY_LIST,
    KEY_JSON
};
enum { SITE_FRAMES_DEFAULT = 64 };
static const struct argp_option option_table[] = {
    {"output", 'o', "DIR", 0,
     "Write the raw logs into DIR, which is created if missing (default: $MALLOC_WRAP_OUT, else /tmp, else /dev/shm "
     "if the file system of /tmp is unsuitable)",
     0},
    {"only", KEY_ONLY, "NAME,...", 0,
     "Record only processes of these names; * and ? stand for any characters (default: all)", 0},
    {"start", KEY_START, "paused|TIME", 0,
     "Begin TIME after each process's start, such as 10s; paused: wait for heaptape ctl PID resume "
     "(default: at once)",
     0},
    {"max-size", KEY_MAX_SIZE, "SIZE", 0,
     "End a process's recording when its log reaches SIZE, such as 512M or 8G (default: when the disk is full)",
     0},
    {"convert", KEY_CONVERT, NULL, 0,
     "Convert while the program runs, in the same folder, and remove each raw log whose trace is complete",
     0},
    {"any-folder", KEY_ANY_FOLDER, NULL, 0,
     "Record even on btrfs, ZFS and network file systems, where a full disk or a lost server can end PROGRAM",
     0},
    {"accesses", KEY_ACCESSES, NULL, 0,
     "Record the program's data accesses too, by simulation (valgrind, about 50 times slower), into "
     "malloc-footprint.PID.acc, for replay --splice",
     0},
    {"sampled", KEY_SAMPLED, NULL, 0,
     "With --accesses: all accesses in bursts, and between them only the last one to each place: about 20 times "
     "slower; for programs that run for a tenth of a second and more",
     0},
    {"sites", KEY_SITES, "FRAMES", OPTION_ARG_OPTIONAL,
     "Record the call site of each allocation too: up to FRAMES frames of its stack, 1 to 128 (default: 64)",
     0},
    {"no-hooks", KEY_NO_HOOKS, NULL, 0,
     "Leave the code of an allocator that is linked into PROGRAM as it is, and its calls unrecorded", 0},
    {"check", KEY_CHECK, "TIME", OPTION_ARG_OPTIONAL,
     "Run PROGRAM once more without the recorder, with all that it does to files and to others; print peak RSS and CPU of "
     "both runs, and note them in the log; with TIME, such as 10s, only if it ended within TIME (default: however long it took)",
     0},
    {"group", KEY_GROUP, NULL, 0,
     "From the start look from outside at the pages of PROGRAM and all its descendants, which of them are shared, into "
     "malloc-footprint.PID.group (default: from when a forked child lives for a second)",
     0},
    {"list", KEY_LIST, "DIR", 0,
     "Record nothing: list the processes whose raw logs are in DIR, of the newest run there, the one that matters first (default: record PROGRAM)",
     0},
    {"json", KEY_JSON, NULL, 0, "With --list: print JSON", 0},
    {"quiet", 'q', NULL, 0, "Print only what went wrong or was not recorded", 0},
    {"verbose", 'v', NULL, 0, "List every process", 0},
    {0}};

// The recorder reads it so: seconds, with decimals. Lives as long as the options.
static bool read_start(const char *text, struct options *options) {
    uint64_t ns;
    if (!strcmp(text, "paused")) {
        options->start = text;
        return true;
    }
    if (!ht_parse_duration(text, &ns) || ns == 0 || ns >= UINT64_C(1000000000) * 1000000000) return false;
    snprintf(options->start_text, sizeof options->start_text, "%" PRIu64 ".%09" PRIu64, ns / 1000000000,
             ns % 1000000000);
    options->start = options->start_text;
    return true;
}

static error_t read_sites(const char *value, struct options *options, const struct argp_state *state) {
    uint64_t frames = SITE_FRAMES_DEFAULT;
    if (value && !ht_parse_whole(value, 1, HT_SITE_FRAMES_MAX, &frames))
        argp_error(state, "--sites %s: expected a number of frames from 1 to %d", value, HT_SITE_FRAMES_MAX);
#ifndef __x86_64__
    argp_error(state, "--sites: call sites are recorded on x86-64 only");
#endif
    options->site_frames = (unsigned)frames;
    return 0;
}

static error_t read_check(const char *value, struct options *options, const struct argp_state *state) {
    uint64_t ns;
    options->check.within_s = INFINITY;
    if (!value) return 0;
    if (!ht_parse_duration(value, &ns) || ns == 0)
        argp_error(state, "--check %s: expected a time such as 10s or 2m", value);
    options->check.within_s = (double)ns / 1e9;
    return 0;
}

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->directory = value; return 0;
    case 'q': options->talk.quiet = true; return 0;
    case 'v': options->talk.verbose = true; return 0;
    case KEY_CONVERT: options->converts = true; return 0;
    case KEY_ACCESSES: options->accesses = true; return 0;
    case KEY_SAMPLED: options->sampled = true; return 0;
    case KEY_NO_HOOKS: options->no_hooks = true; return 0;
    case KEY_ANY_FOLDER: options->any_folder = true; return 0;
    case KEY_SITES: return read_sites(value, options, state);
    case KEY_CHECK: return read_check(value, options, state);
    case KEY_GROUP: options->group = true; return 0;
    case KEY_LIST: options->list = value; return 0;
    case KEY_JSON: options->json = true; return 0;
    case KEY_ONLY:
        options->only = value;
        options->talk.only_some = true;
        return 0;
    case KEY_START:
        if (!read_start(value, options))
            argp_error(state, "--start %s: expected paused, or a time such as 10s or 2m", value);
        return 0;
    case KEY_MAX_SIZE:
        if (!ht_parse_bytes(value, 1, &options->log_bytes_max) || options->log_bytes_max < LOG_BYTES_MIN)
            argp_error(state, "--max-size %s: expected a size from 64k on, such as 512M or 8G", value);
        return 0;
    case ARGP_KEY_ARG:
        // The first word that is no option begins the command; everything behind it is the command's own.
        options->command_at = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (options->list && options->command_at)
            argp_error(state, "--list records nothing: expected no PROGRAM with it");
        if (options->json && !options->list) argp_error(state, "--json: expected --list with it");
        if (options->sampled && !options->accesses)
            argp_error(state, "--sampled: expected --accesses with it");
        if (options->accesses && (options->only || options->start || options->log_bytes_max ||
                                  options->converts || options->site_frames || options->group))
            argp_error(
                state,
                "--accesses: expected none of --only, --start, --max-size, --convert, --sites and --group with it");
        if (options->check.within_s > 0 && (options->accesses || options->converts || options->site_frames))
            argp_error(state, "--check: expected none of --accesses, --convert and --sites with it");
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (!options->list) argp_error(state, "expected PROGRAM");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = option_table,
    .parser = parse_option,
    .args_doc = "[--] PROGRAM [ARGUMENT...]\n--list DIR",
    .doc =
        "Run PROGRAM and record every call of the malloc family that it and its children make."
        "\vLD_PRELOAD=libmalloc_wrap.so PROGRAM records too, if the loader finds the library: after ldconfig, or by its full path. If a program calls "
        "jemalloc's or mimalloc's own functions (mallocx, mi_malloc, mallctl), preload libmalloc_wrap_full.so; record does so itself."};

const struct ht_page ht_page_record = {
    .name = "record",
    .argp = &parser,
    .examples =
        (const struct ht_fact[]){
            {"heaptape record -o logs -- ./app", "Record a program and its children"},
            {"heaptape record --only 'cc1*' --max-size 2G -- make",
             "Record only some processes, in logs of limited size"},
            {"heaptape record --sites -o logs -- ./app", "Record who allocates, too"},
            {"heaptape record --convert -o traces -- ./app", "Convert while the program runs"},
            {"heaptape record --list logs", "See which processes were recorded"},
            {"heaptape record --check -o logs -- ./app", "See what recording changes"},
            {0}},
    .files =
        (const struct ht_fact[]){
            {"malloc-footprint.PID.mraw", "The raw log of a process; .PID.N after exec"},
            {"malloc-footprint.PID.acc", "Calls and accesses of a process (--accesses)"},
            {"malloc-footprint.PID.group", "Pages of a program and the processes that it forked"},
            {0}},
    .environment =
        (const struct ht_fact[]){
            {"MALLOC_WRAP_OUT", "The folder for logs without -o"},
            {"MALLOC_WRAP_ONLY", "For a bare LD_PRELOAD: as --only"},
            {"MALLOC_WRAP_START", "For a bare LD_PRELOAD: as --start, in seconds"},
            {"MALLOC_WRAP_MAX_BYTES", "For a bare LD_PRELOAD: as --max-size, in bytes"},
            {"MALLOC_WRAP_ANY_FOLDER", "1: as --any-folder"},
            {"MALLOC_WRAP_SITES", "For a bare LD_PRELOAD: as --sites, a number of frames"},
            {0}},
    .statuses = (const struct ht_fact[]){{"2", "Wrong usage"},
                                         {"125", "The recording failed, or recorded nothing"},
                                         {"126", "PROGRAM cannot be run"},
                                         {"127", "PROGRAM was not found"},
                                         {"other", "That of PROGRAM; 128 + N if signal N ended it"},
                                         {0}},
    .see_also = "ctl convert try"};

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

static int status_of(const struct ending *ending) {
    return WIFSIGNALED(ending->wait_status) ? 128 + WTERMSIG(ending->wait_status)
                                            : WEXITSTATUS(ending->wait_status);
}

// The program's own failure, which its status shows, goes before ours.
static int or_failed(int program_status) { return program_status ? program_status : EXIT_RECORD_FAILED; }

// Such a status may be the program's own; then it made calls, or says nothing worse than that it made none.
static bool never_ran(int status) { return status == EXIT_NOT_FOUND || status == EXIT_CANNOT_RUN; }

// Says what came of it. Returns the exit status.
static int conclude(const struct options *options, const struct recorded_run *run,
                    const struct ending *ending, struct unhooked_programs *unhooked) {
    struct found_logs found;
    int status = status_of(ending);
    found_logs_of_run(&found, run, ending);
    if (found.of_program) record_say_hooks(&options->talk, found.hooks ? found.hooks : "");
    for (size_t i = 0; i < found.count; i++)
        unhooked_programs_take(unhooked, found.log[i].executable, found.log[i].hooks);
    unhooked_programs_say(unhooked);
    if (found.calls) {
        record_say_logs(&options->talk, &found, ending);
        check_run_do(&options->check, run, ending, &found);
    } else if (!never_ran(status)) {
        record_say_nothing_recorded(run->command[0], &found, run->directory);
        status = or_failed(status);
    }
    found_logs_free(&found);
    return status;
}

// Says what came of it if the logs became traces at once. Returns the exit status.
static int conclude_converted(const struct options *options, const struct recorded_run *run,
                              const struct ending *ending, struct run_converter *converter,
                              struct unhooked_programs *unhooked) {
    struct converted *results;
    size_t count;
    int status = status_of(ending);
    if (!run_converter_finish(converter, ending->pid, &results, &count)) {
        ht_print(stderr, "heaptape record: the conversion during the recording failed: the logs are in %s\n",
                 run->directory);
        run_converter_free(results, count);
        return or_failed(status);
    }
    bool incomplete = false;
    const char *hooks = NULL;
    for (size_t i = 0; i < count; i++) {
        incomplete |= !results[i].complete && !results[i].running;
        if (*results[i].executable) unhooked_programs_take(unhooked, results[i].executable, results[i].hooks);
        // A program that becomes another has several.
        if ((pid_t)results[i].pid == ending->pid && (!hooks || !*hooks)) hooks = results[i].hooks;
    }
    if (hooks) record_say_hooks(&options->talk, hooks);
    unhooked_programs_say(unhooked);
    if (count) record_say_traces(&options->talk, results, count);
    if (!count && !never_ran(status)) {
        ht_print(stderr, "heaptape record: %s made no call that could be recorded: %s has no trace\n",
                 run->command[0], run->directory);
        status = or_failed(status);
    }
    run_converter_free(results, count);
    return incomplete ? or_failed(status) : status;
}

// A folder that was asked for is made; what is above it must be there, so that a mistyped name makes no tree.
static int find_directory(const struct options *options, char directory[PATH_MAX]) {
    struct statfs status;
    struct stat folder;
    const char *wanted = options->directory ? options->directory : getenv("MALLOC_WRAP_OUT"), *unfit;
    // In the environment an empty name is as none; one that was asked for cannot be made.
    if (!wanted || (!*wanted && !options->directory))
        wanted =
            !options->any_folder && !ht_folder_status(LOG_FOLDER_FIRST, &status) && file_system_unfit(&status)
                ? LOG_FOLDER_SECOND
                : LOG_FOLDER_FIRST;
    bool made = options->directory && !mkdir(wanted, 0777);
    int not_made = errno;
    bool found = realpath(wanted, directory) && !stat(directory, &folder);
    if (!found && options->directory && !made && errno == ENOENT) errno = not_made;
    // access() says of a file that it may not be run.
    if (found && !S_ISDIR(folder.st_mode)) errno = ENOTDIR;
    if (!found || !S_ISDIR(folder.st_mode) || access(directory, W_OK | X_OK)) {
        ht_print(stderr, "heaptape record: cannot write logs into %s: %s\n", *wanted ? wanted : "''",
                 strerror(errno));
        return EXIT_RECORD_FAILED;
    }
    if (!options->any_folder && !ht_folder_status(directory, &status) &&
        (unfit = file_system_unfit(&status))) {
        ht_print(stderr,
                 "heaptape record: will not write logs into %s: it is on %s, and the program could end by "
                 "SIGBUS; use -o %s, or --any-folder to take the risk\n",
                 directory, unfit, LOG_FOLDER_SECOND);
        if (made) rmdir(wanted);
        return EXIT_RECORD_FAILED;
    }
    if (made && !options->talk.quiet) ht_print(stderr, "heaptape record: made the folder %s\n", directory);
    return 0;
}

// Finds where the logs go and which library writes them. 0, or an exit status with a line on stderr.
static int find_places(const struct options *options, char shim[PATH_MAX], char directory[PATH_MAX]) {
    if (!find_library("libmalloc_wrap.so", shim)) {
        fputs("heaptape record: libmalloc_wrap.so is neither in heaptape's folder nor in its library "
              "folder\n",
              stderr);
        return EXIT_RECORD_FAILED;
    }
    if (strpbrk(shim, " :")) {
        ht_print(stderr, "heaptape record: LD_PRELOAD cannot hold a path with a space or colon: %s\n", shim);
        return EXIT_RECORD_FAILED;
    }
    return find_directory(options, directory);
}

// A program that calls its allocator by names of its own needs the library that has those names too. `full` is that library if
// it is there and not taken, else "".
static void choose_shim(const struct reach *reach, char shim[PATH_MAX], char full[PATH_MAX]) {
    if (find_library("libmalloc_wrap_full.so", full) && !strpbrk(full, " :")) {
        if (!calls_own_functions(reach->executable, shim, full)) return;
        memcpy(shim, full, PATH_MAX);
    } else if (reach->loads) {
        ht_print(stderr,
                 "heaptape record: warning: %s loads %s: calls of that allocator's own functions are not "
                 "recorded, since libmalloc_wrap_full.so is not next to libmalloc_wrap.so\n",
                 reach->program, reach->loads);
    }
    *full = 0;
}

// An allocator that is linked into the program: its functions are hooked, all that it needs or none. True if the program's
// calls will be recorded.
static bool plan_hooks(const struct options *options, struct reach *reach, struct linked_plan *plan) {
    *plan = (struct linked_plan){0};
    if (!reach->linked || options->no_hooks) return false;
    if (!linked_plan_make(plan, reach->executable, reach->allocator)) {
        size_t length = strlen(reach->why);
        snprintf(reach->why + length, sizeof reach->why - length, "; cannot be hooked: %s", plan->why);
        return false;
    }
    char count[HT_NUMBER_OF_BYTES];
    if (!options->talk.quiet)
        ht_print(stderr,
                 "heaptape record: hooks %s of %s, which is linked into %s (--no-hooks leaves them)\n",
                 ht_number_of(count, plan->functions, "function"),
                 strcmp(plan->name, "own") ? plan->name : "the allocator", reach->executable);
    if (plan->uncalled)
        ht_print(
            stderr,
            "heaptape record: warning: no code in %s calls those that allocate, or those that free: what is inlined there is not recorded\n",
            reach->executable);
    return true;
}

int ht_verb_record(int argc, char **argv) {
    struct options options = {0};
    char shim[PATH_MAX], full[PATH_MAX], directory[PATH_MAX], id[40];
    struct reach reach;
    struct ending ending;
    uint64_t random[2] = {0};
    ht_page_parse(&ht_page_record, argc, argv, ARGP_IN_ORDER, &options);
    const char *any_folder = getenv("MALLOC_WRAP_ANY_FOLDER");
    if (options.list) return log_list_print(options.list, options.json);
    options.any_folder |= any_folder && !strcmp(any_folder, "1");
    char **command = argv + options.command_at;
    int status = find_places(&options, shim, directory);
    if (status) return status;
    if (options.accesses)
        return access_run(command, directory, options.sampled, &options.talk, EXIT_RECORD_FAILED);
    reach_of(&reach, command, shim);
    struct linked_plan plan;
    if (plan_hooks(&options, &reach, &plan)) reach.level = REACH_FULL;
    options.talk.hooks = plan.text != NULL;
    if (reach.level == REACH_NONE) {
        ht_print(stderr, "heaptape record: %s %s: nothing to record\n", reach.program, reach.why);
        return EXIT_RECORD_FAILED;
    }
    options.check.quiet = options.talk.quiet;
    if (options.check.within_s > 0 && !check_run_begin(&options.check)) return HT_EXIT_USAGE;
    if (reach.level == REACH_PARTLY)
        ht_print(stderr, "heaptape record: warning: %s %s\n", reach.program, reach.why);
    record_say_directory(&options.talk, directory);
    choose_shim(&reach, shim, full);
    if (getrandom(random, sizeof random, 0) != sizeof random) random[0] = (uint64_t)getpid();
    snprintf(id, sizeof id, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    struct group_watch group = {.from_start = options.group, .directory = directory, .id = id, .wake = -1};
    options.talk.group = &group;
    struct recorded_run run = {.command = command,
                               .group = &group,
                               .shim = shim,
                               .directory = directory,
                               .id = id,
                               .only = options.only,
                               .start = options.start,
                               .hooks = plan.text,
                               .any_folder = options.any_folder,
                               .cuts_logs = !options.converts,
                               .site_frames = options.site_frames,
                               .log_bytes_max = options.log_bytes_max,
                               .peak_for_s = options.check.within_s,
                               .says_how_to_resume =
                                   options.start && !strcmp(options.start, "paused") && !options.talk.quiet};
    struct run_converter converter;
    if (options.converts && !run_converter_start(&converter, directory, id, options.talk.quiet)) {
        ht_print(stderr, "heaptape record: cannot convert: %s\n", strerror(errno));
        return EXIT_RECORD_FAILED;
    }
    if (!recorded_run(&run, &ending)) {
        ht_print(stderr, "heaptape record: cannot start %s: %s\n", command[0], strerror(errno));
        return EXIT_RECORD_FAILED;
    }
    struct unhooked_programs unhooked;
    unhooked_programs_begin(&unhooked, reach.executable, shim, full);
    status = options.converts ? conclude_converted(&options, &run, &ending, &converter, &unhooked)
                              : conclude(&options, &run, &ending, &unhooked);
    linked_plan_free(&plan);
    group_watch_free(&group);
    return status;
}
