// heaptape record: runs a program with the shim preloaded, passes on its signals and exit status, and says
// what came of it.
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "raw_reader.h"
#include "reachable.h"
#include "talk.h"
#include "verbs.h"

enum { TMPFS_MAGIC_NUMBER = 0x01021994, LOW_SPACE_BYTES = 1 << 30 };

struct options {
    const char *directory;
    bool quiet, verbose;
    int command_at;  // index of the command in argv
};

struct found_log {
    char *path;
    uint64_t bytes, calls;
    uint32_t threads;
    bool stopped;
};

struct found_logs {
    struct found_log *log;
    size_t count;
    bool of_program;  // one of them is of the program itself, not of a child
    bool to_the_end;  // one of them holds the program as it was when it ended
};

// How a program ended, and the name that it then had.
struct ending {
    pid_t pid;
    int wait_status;
    char name[17];
};

static const struct argp_option option_table[] = {
    {"output", 'o', "DIR", 0, "Write the raw logs into DIR (default: $MALLOC_WRAP_OUT or /tmp)", 0},
    {"quiet", 'q', NULL, 0, "Say nothing unless something is wrong", 0},
    {"verbose", 'v', NULL, 0, "List the log of every process", 0},
    {0}};

static error_t parse_option(int key, char *value, struct argp_state *state) {
    struct options *options = state->input;
    switch (key) {
    case 'o': options->directory = value; return 0;
    case 'q': options->quiet = true; return 0;
    case 'v': options->verbose = true; return 0;
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

// The shim stands beside this program in the build tree, and in the library folder once installed.
static bool find_shim(char path[PATH_MAX]) {
    static const char *const places[] = {"", "../" HEAPTAPE_LIBDIR "/", "../lib/", "../lib64/"};
    char self[PATH_MAX], candidate[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0) return false;
    self[length] = 0;
    *(strrchr(self, '/') + 1) = 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(candidate, sizeof candidate, "%s%slibmalloc_wrap.so", self, places[i]);
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

static volatile sig_atomic_t child_pid;

// A handler has no other way to know the child.
static void forward(int signal_number) {
    if (child_pid > 0) kill((pid_t)child_pid, signal_number);
}

static void set_environment(const char *shim, const char *directory, const char *run) {
    const char *others = getenv("LD_PRELOAD");
    char *preload = NULL;
    if (others && *others && asprintf(&preload, "%s:%s", shim, others) < 0) preload = NULL;
    setenv("LD_PRELOAD", preload ? preload : shim, 1);
    setenv("MALLOC_WRAP_OUT", directory, 1);
    setenv("MALLOC_WRAP_RUN", run, 1);
    free(preload);
}

// Of what has ended but was not waited for, the kernel still tells the name: the last file that it executed.
static void read_name(struct ending *ending) {
    char path[64];
    siginfo_t information;
    while (waitid(P_PID, (id_t)ending->pid, &information, WEXITED | WNOWAIT) && errno == EINTR) continue;
    snprintf(path, sizeof path, "/proc/%d/comm", (int)ending->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, ending->name, sizeof ending->name - 1);
    ending->name[got > 0 ? got - 1 : 0] = 0;
    if (fd >= 0) close(fd);
}

// Runs the program to its end. False if it could not be started.
static bool run_program(char **command, const char *shim, const char *directory, const char *run,
                        struct ending *ending) {
    // The terminal sends its signals to the program as well; others are passed on.
    struct sigaction ignored = {.sa_handler = SIG_IGN},
                     passed = {.sa_handler = forward, .sa_flags = SA_RESTART};
    struct sigaction old_interrupt, old_quit;
    sigaction(SIGINT, &ignored, &old_interrupt);
    sigaction(SIGQUIT, &ignored, &old_quit);
    pid_t pid = fork();
    if (pid < 0) return false;
    if (pid == 0) {
        sigaction(SIGINT, &old_interrupt, NULL);
        sigaction(SIGQUIT, &old_quit, NULL);
        set_environment(shim, directory, run);
        execvp(command[0], command);
        int why = errno;
        fprintf(stderr, "heaptape record: cannot run %s: %s\n", command[0], strerror(why));
        _exit(why == ENOENT ? 127 : 126);
    }
    child_pid = pid;
    sigaction(SIGTERM, &passed, NULL);
    sigaction(SIGHUP, &passed, NULL);
    sigaction(SIGUSR1, &passed, NULL);
    sigaction(SIGUSR2, &passed, NULL);
    *ending = (struct ending){.pid = pid};
    read_name(ending);
    while (waitpid(pid, &ending->wait_status, 0) < 0)
        if (errno != EINTR) return false;
    return true;
}

// A log whose process is gone needs no more room than its windows take.
static void trim(const struct ht_raw_log *log) {
    struct ht_raw_header now;
    bool gone = kill((pid_t)log->header.pid, 0) && errno == ESRCH;
    // Read again: it may have written on until it went.
    if (!gone || pread(log->fd, &now, sizeof now, 0) != sizeof now || now.windows_end >= log->file_bytes)
        return;
    if (truncate(log->path, (off_t)now.windows_end)) { /* it stays sparse */
    }
}

static bool is_named(const char *path, size_t length, const char *name) {
    enum { KERNEL_KEEPS = 15 };
    const char *slash = memrchr(path, '/', length);
    size_t start = slash ? (size_t)(slash + 1 - path) : 0;
    size_t kept = length - start < KERNEL_KEEPS ? length - start : KERNEL_KEEPS;
    return strlen(name) == kept && !memcmp(path + start, name, kept);
}

// A file that can't be read may be one.
static bool is_script(const char *path, size_t length) {
    char copy[PATH_MAX], head[2] = "#!";
    snprintf(copy, sizeof copy, "%.*s", (int)length, path);
    int fd = open(copy, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = fd < 0 ? 0 : read(fd, head, sizeof head);
    if (fd >= 0) close(fd);
    return got < (ssize_t)sizeof head || !memcmp(head, "#!", sizeof head);
}

// Whether the log is of the image in which the program ended: it saw the exit, or has the name that the
// program had. A script has its own name, which is the second word of its interpreter's command.
static bool goes_to_the_end(const struct ht_raw_log *log, const struct ending *ending) {
    const char *executable = ht_raw_context(log, "executable"), *command = ht_raw_context(log, "command");
    if (log->header.state != HT_RAW_RECORDING || !WIFEXITED(ending->wait_status) || !*ending->name)
        return true;
    if (executable && is_named(executable, strlen(executable), ending->name)) return true;
    size_t first = command ? strcspn(command, " ") : 0;
    if (!first || command[first] != ' ') return first && is_named(command, first, ending->name);
    const char *script = command + first + 1;
    size_t second = strcspn(script, " ");
    return is_named(command, first, ending->name) ||
           (is_named(script, second, ending->name) && is_script(script, second));
}

static int add_log(struct found_logs *found, const char *path, const char *run, const struct ending *ending) {
    struct ht_raw_log log;
    struct ht_error error;
    struct stat status;
    struct found_log entry = {0};
    if (ht_raw_open(&log, path, &error)) return 0;  // another's, half made, or no log at all
    const char *log_run = ht_raw_context(&log, "run");
    if (log_run && !strcmp(log_run, run)) {
        trim(&log);
        if ((pid_t)log.header.pid == ending->pid) {
            found->of_program = true;
            found->to_the_end |= goes_to_the_end(&log, ending);
        }
        entry.stopped = log.header.state == HT_RAW_STOPPED;
        if (ht_raw_count_calls(&log, &entry.calls, &entry.threads, &error))
            ht_complain("heaptape record", &error);
        if (!stat(path, &status)) entry.bytes = (uint64_t)status.st_blocks * 512;
        entry.path = strdup(path);
        struct found_log *larger = realloc(found->log, (found->count + 1) * sizeof *larger);
        if (!larger || !entry.path) return -1;
        found->log = larger;
        found->log[found->count++] = entry;
    }
    ht_raw_close(&log);
    return 0;
}

static void find_logs(struct found_logs *found, const char *directory, const char *run,
                      const struct ending *ending) {
    DIR *folder = opendir(directory);
    struct dirent *entry;
    char path[PATH_MAX];
    while (folder && (entry = readdir(folder)))
        if (!strncmp(entry->d_name, "malloc-footprint.", 17) &&
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name) < PATH_MAX &&
            add_log(found, path, run, ending))
            break;
    if (folder) closedir(folder);
}

static int most_calls_first(const void *a, const void *b) {
    const struct found_log *left = a, *right = b;
    return (left->calls < right->calls) - (left->calls > right->calls);
}

static uint64_t count_calls(const struct found_logs *found) {
    uint64_t calls = 0;
    for (size_t i = 0; i < found->count; i++) calls += found->log[i].calls;
    return calls;
}

static void say_nothing_recorded(const char *name, const struct found_logs *found, const char *directory) {
    fprintf(stderr, "heaptape record: %s made no call that could be recorded: ", name);
    if (found->count) fprintf(stderr, "%s is empty\n", found->log[0].path);
    else fprintf(stderr, "no log was written into %s\n", directory);
}

static void say_logs(const struct found_logs *found, bool verbose) {
    uint64_t threads = 0;
    char text[32], size[32];
    for (size_t i = 0; i < found->count; i++) threads += found->log[i].threads;
    const struct found_log *first = &found->log[0];
    fprintf(stderr, "recorded %s calls, %zu process%s, %" PRIu64 " thread%s: %s (%s)\n",
            ht_grouped(text, count_calls(found)), found->count, found->count == 1 ? "" : "es", threads,
            threads == 1 ? "" : "s", first->path, ht_bytes(size, (double)first->bytes));
    for (size_t i = verbose ? 0 : found->count; i < found->count; i++)
        fprintf(stderr, "  %s calls: %s (%s)\n", ht_grouped(text, found->log[i].calls), found->log[i].path,
                ht_bytes(size, (double)found->log[i].bytes));
    if (found->count > 1 && !verbose)
        fprintf(stderr, "  and %zu more in the same folder (-v lists them); this one has the most calls\n",
                found->count - 1);
    for (size_t i = 0; i < found->count; i++)
        if (found->log[i].stopped)
            fprintf(stderr, "heaptape record: warning: %s: the recording stopped early, for want of room\n",
                    found->log[i].path);
    const char *name = strrchr(first->path, '/') + 1;
    fprintf(stderr, "next: heaptape convert %s -o %.*s.bin\n", first->path, (int)(strlen(name) - 5), name);
}

static int exit_status_of(int wait_status) {
    return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int ht_verb_record(int argc, char **argv) {
    struct options options = {0};
    char shim[PATH_MAX], directory[PATH_MAX], run[40];
    struct reach reach;
    uint64_t random[2];
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &options);
    char **command = argv + options.command_at;
    if (find_shim(shim) && strpbrk(shim, " :")) {
        fprintf(stderr, "heaptape record: LD_PRELOAD cannot hold the blank or colon in %s\n", shim);
        return HT_EXIT_FAILED;
    }
    if (!find_shim(shim)) {
        fputs("heaptape record: libmalloc_wrap.so is neither beside heaptape nor in its library folder\n",
              stderr);
        return HT_EXIT_FAILED;
    }
    const char *wanted = options.directory ? options.directory : getenv("MALLOC_WRAP_OUT");
    if (!wanted || !*wanted) wanted = "/tmp";
    if (!realpath(wanted, directory) || access(directory, W_OK | X_OK)) {
        fprintf(stderr, "heaptape record: cannot write logs into %s: %s\n", wanted, strerror(errno));
        return HT_EXIT_FAILED;
    }
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
    if (getrandom(random, sizeof random, 0) != sizeof random) random[0] = (uint64_t)getpid();
    snprintf(run, sizeof run, "%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    struct ending ending;
    if (!run_program(command, shim, directory, run, &ending)) {
        fprintf(stderr, "heaptape record: cannot start %s: %s\n", command[0], strerror(errno));
        return HT_EXIT_FAILED;
    }
    int status = exit_status_of(ending.wait_status);
    struct found_logs found = {0};
    find_logs(&found, directory, run, &ending);
    if (count_calls(&found)) {
        qsort(found.log, found.count, sizeof *found.log, most_calls_first);
        if (!options.quiet) say_logs(&found, options.verbose);
        if (found.of_program && !found.to_the_end)
            fprintf(stderr,
                    "heaptape record: warning: the program ended as '%s', of which nothing was recorded\n",
                    ending.name);
    } else if (status != 127 && status != 126) {
        say_nothing_recorded(command[0], &found, directory);
        if (!status) status = HT_EXIT_FAILED;
    }
    for (size_t i = 0; i < found.count; i++) free(found.log[i].path);
    free(found.log);
    return status;
}
