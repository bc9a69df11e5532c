// SPDX-License-Identifier: Apache-2.0
#include "recorded_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ended_logs.h"
#include "hook_plan.h"
#include "now.h"
#include "print.h"
#include "simulation.h"

// ---- how much memory it takes ----

struct process_peak {
    pid_t pid;
    double for_s;    // so long it is looked at
    double limit_s;  // after that it is sent SIGTERM, then SIGKILL; 0: never
    int output;      // what comes from there is read, and forgotten; -1: none
    // What was found.
    uint64_t rss_bytes;  // the highest RssAnon, without pages of files: those of the log are such; 0: unknown
    bool too_long;       // it did not end before the limit
};

// The first steps are short, for programs that are. A look takes 3 us, and a step of a millisecond misses at most what a
// program touches meanwhile, 2 MB.
static const double STEP_LEAST_S = 0.0002, STEP_MOST_S = 0.001, STEP_SHARE = 0.01;
static const double PATIENCE_S = 2;  // between SIGTERM and SIGKILL

// It counts as the recorder itself does in the program (shim/sampling/process_memory.c). The open file is of the process,
// whatever it executes.
static uint64_t rss_bytes_of(int statm, long page_bytes) {
    char text[128];
    uint64_t resident, shared;
    ssize_t got = pread(statm, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    if (sscanf(text, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2 || resident < shared) return 0;
    return (resident - shared) * (uint64_t)page_bytes;
}

static bool has_ended(pid_t pid) {
    siginfo_t information = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &information, WEXITED | WNOWAIT | WNOHANG) ? errno != EINTR
                                                                               : information.si_pid == pid;
}

static void pass_time(int output, double seconds) {
    char bytes[65536];
    struct pollfd wanted = {.fd = output, .events = POLLIN};
    const struct timespec step = {.tv_nsec = (long)(seconds * 1e9)};
    // poll() passes over a descriptor below 0. At the end of the output it would return at once.
    if (ppoll(&wanted, 1, &step, NULL) > 0 && read(output, bytes, sizeof bytes) <= 0) nanosleep(&step, NULL);
}

static void end_it(struct process_peak *watch, double passed_s) {
    if (watch->limit_s <= 0 || passed_s < watch->limit_s) return;
    kill(watch->pid, passed_s > watch->limit_s + PATIENCE_S ? SIGKILL : SIGTERM);
    watch->too_long = true;
}

// Looks from outside at a child until it has ended: the same way whether it is recorded or not.
// Returns once it has ended or for_s have passed. It is still to be waited for.
static void process_peak_watch(struct process_peak *watch) {
    char path[64];
    long page_bytes = sysconf(_SC_PAGESIZE);
    double began_s = ht_now_s(), passed_s = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)watch->pid);
    int statm = open(path, O_RDONLY | O_CLOEXEC);
    while (passed_s < watch->for_s && !has_ended(watch->pid)) {
        uint64_t bytes = statm < 0 ? 0 : rss_bytes_of(statm, page_bytes);
        if (bytes > watch->rss_bytes) watch->rss_bytes = bytes;
        double step_s = passed_s * STEP_SHARE;
        pass_time(watch->output, step_s < STEP_LEAST_S  ? STEP_LEAST_S
                                 : step_s > STEP_MOST_S ? STEP_MOST_S
                                                        : step_s);
        passed_s = ht_now_s() - began_s;
        end_it(watch, passed_s);
    }
    if (statm >= 0) close(statm);
}

// ---- the run ----

static const int forwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { FORWARDED = sizeof forwarded / sizeof *forwarded };

// A handler has no other way to know the child.
static volatile sig_atomic_t child_pid;
static struct group_watch *volatile child_group;  // NULL: nobody looks

// The terminal sends its signals to the program as well; only those that somebody sent to us are passed on.
static void forward(int number, siginfo_t *information, void *context) {
    (void)context;
    int saved = errno;
    if (information->si_code <= 0 && child_pid > 0 &&
        !(child_group && group_watch_passes(child_group, number)))
        kill((pid_t)child_pid, number);
    errno = saved;
}

static void set(const char *name, const char *value) {
    if (value) setenv(name, value, 1);
}

// The address sanitizer's shared runtime refuses to start behind another library. It works there: programs of it that the
// recorded one starts must not fail. The user's word on it comes later, and counts.
static void admit_sanitizers(void) {
    static const char option[] = "verify_asan_link_order=0";
    const char *others = getenv("ASAN_OPTIONS");
    char *both = NULL;
    if (others && *others && asprintf(&both, "%s:%s", option, others) < 0) both = NULL;
    set("ASAN_OPTIONS", both ? both : option);
    free(both);
}

static void set_environment(const struct recorded_run *run) {
    const char *others = getenv("LD_PRELOAD");
    char *preload = NULL, number[24];
    if (others && *others && asprintf(&preload, "%s:%s", run->shim, others) < 0) preload = NULL;
    set("LD_PRELOAD", preload ? preload : run->shim);
    set("MALLOC_WRAP_OUT", run->directory);
    set("MALLOC_WRAP_RUN", run->id);
    set("MALLOC_WRAP_ONLY", run->only);
    set("MALLOC_WRAP_START", run->start);
    snprintf(number, sizeof number, "%" PRIu64, run->log_bytes_max);
    if (run->log_bytes_max) set("MALLOC_WRAP_MAX_BYTES", number);
    admit_sanitizers();
    snprintf(number, sizeof number, "%u", run->site_frames);
    if (run->site_frames) set("MALLOC_WRAP_SITES", number);
    if (run->any_folder) set("MALLOC_WRAP_ANY_FOLDER", "1");
    // Long, so behind the others: before libc has an environment, the library reads only the beginning of it.
    unsetenv(HT_HOOK_VARIABLE);  // another program's, which records this one
    set(HT_HOOK_VARIABLE, run->hooks);
    free(preload);
}

static void set_outputs(const struct run_alone *alone) {
    for (int i = 0; i < 2; i++)
        if (alone->into[i] >= 0) dup2(alone->into[i], STDOUT_FILENO + i);
}

static _Noreturn void become(const struct recorded_run *run) {
    if (run->simulation) {
        ht_simulation_exec(run->simulation, run->command);
    } else {
        if (run->alone) set_outputs(run->alone);
        else set_environment(run);
        execvp(run->command[0], run->command);
    }
    int why = errno;
    ht_print(stderr, "heaptape record: cannot run %s: %s\n", run->command[0], strerror(why));
    _exit(why == ENOENT ? 127 : 126);
}

// The kernel still has the name of a process that has ended but was not waited for: the last file that it executed.
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

// In the child all handlers are gone: exec resets them, and what was ignored stays so.
static bool start(const struct recorded_run *run, struct ending *ending) {
    struct sigaction passed = {.sa_sigaction = forward, .sa_flags = SA_RESTART | SA_SIGINFO}, old;
    struct sigaction usual = {.sa_handler = SIG_DFL}, child_before;
    sigset_t wanted, before;
    sigemptyset(&wanted);
    for (int i = 0; i < FORWARDED; i++) sigaddset(&wanted, forwarded[i]);
    sigprocmask(SIG_BLOCK, &wanted, &before);
    // A process that ignores SIGCHLD learns nothing of a child's end.
    sigaction(SIGCHLD, &usual, &child_before);
    for (int i = 0; i < FORWARDED; i++)
        if (!sigaction(forwarded[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(forwarded[i], &passed, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sigaction(SIGCHLD, &child_before, NULL);
        sigprocmask(SIG_SETMASK, &before, NULL);
        become(run);
    }
    *ending = (struct ending){.pid = pid};
    child_pid = pid;
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid > 0;
}

// Before it is waited for: until then nobody else has its pid.
static void leave_group(const struct recorded_run *run) {
    if (!run->group) return;
    child_group = NULL;
    group_watch_leave(run->group);
}

static bool wait_for_end(struct ending *ending, struct rusage *used) {
    while (wait4(ending->pid, &ending->wait_status, 0, used) < 0)
        if (errno != EINTR) return false;
    return true;
}

static double ns_of(struct timeval time) { return (double)time.tv_sec * 1e9 + (double)time.tv_usec * 1e3; }

// Until it has executed the program, a child of ours has our memory.
static void await_exec(int executed) {
    char none;
    while (read(executed, &none, sizeof none) < 0 && errno == EINTR) continue;
}

static void look_at_memory(const struct recorded_run *run, struct ending *ending) {
    struct process_peak watch = {.pid = ending->pid,
                                 .for_s = run->peak_for_s,
                                 .limit_s = run->alone ? run->alone->limit_s : 0,
                                 .output = run->alone ? run->alone->output : -1};
    process_peak_watch(&watch);
    ending->rss_peak_bytes = watch.rss_bytes;
    ending->too_long = watch.too_long;
}

// Returns, if its memory is to be looked at, once it has executed the program.
static bool start_watched(const struct recorded_run *run, struct ending *ending) {
    int executed[2] = {-1, -1};
    bool looked_at = run->peak_for_s > 0 || (run->group && run->group->from_start);
    if (looked_at && pipe2(executed, O_CLOEXEC)) return false;
    bool started = start(run, ending);
    if (executed[1] >= 0) close(executed[1]);
    if (started && executed[0] >= 0) await_exec(executed[0]);
    if (executed[0] >= 0) close(executed[0]);
    return started;
}

bool recorded_run(const struct recorded_run *run, struct ending *ending) {
    double began_s = ht_now_s();
    struct ended_logs ended;
    ended_logs_begin(&ended, run->directory, run->id, run->cuts_logs);
    if (!start_watched(run, ending)) {
        ended_logs_leave(&ended);
        return false;
    }
    if (run->says_how_to_resume)
        ht_print(stderr, "heaptape record: paused; begin the recording by heaptape ctl %d resume\n",
                 (int)ending->pid);
    ended_logs_watch(&ended);
    if (run->group) {
        group_watch_begin(run->group, ending->pid);
        child_group = run->group;
    }
    struct rusage used;
    if (run->peak_for_s > 0) look_at_memory(run, ending);
    read_name(ending);
    ending->took_s = ht_now_s() - began_s;
    leave_group(run);
    bool known = wait_for_end(ending, &used);
    ended_logs_leave(&ended);
    if (!known) return false;
    ending->cpu_ns = ns_of(used.ru_utime) + ns_of(used.ru_stime);
    child_pid = 0;
    return true;
}
