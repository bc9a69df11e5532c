// SPDX-License-Identifier: Apache-2.0
#include "child_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child_answer.h"
#include "form_streamed.h"
#include "kernel_text.h"
#include "machine_memory.h"
#include "now.h"
#include "older_libc.h"
#include "processor_number.h"
#include "replay_warnings.h"
#include "shown_processors.h"
#include "talk.h"

enum { HT_PADDING_BYTES_MAX = 4096, HT_ENVIRONMENT_MAX = 4096 };

struct ht_child_environment {
    char *variables[HT_ENVIRONMENT_MAX];  // NULL after the last
    struct ht_knob_variables knobs;
    char padding[HT_PADDING_BYTES_MAX], preload[4200], tunables[4200];
    char processors[40];
    char allocator[160], pass[32], run[48];
};

enum { OWN_VARIABLES = 8 + HT_KNOB_VARIABLES_MAX };

static const char tunables_name[] = "GLIBC_TUNABLES=", of_malloc[] = "glibc.malloc.";

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

static void add_tunable(struct ht_child_environment *made, const char *word, size_t length) {
    size_t used = strlen(made->tunables), room = sizeof made->tunables - used;
    if (length + 2 > room) return;
    const char *before = made->tunables[used - 1] == '=' ? "" : ":";
    snprintf(made->tunables + used, room, "%s%.*s", before, (int)length, word);
}

// The C library's: of ours all that are not malloc's, then the choice's and what the allocator needs to be what it is, because
// the last word counts. False: there are none.
static bool make_tunables(struct ht_child_environment *made, const struct ht_choice *choice) {
    const char *needed = choice->kind ? choice->kind->environment : NULL;
    const char *own = getenv("GLIBC_TUNABLES");
    strcpy(made->tunables, tunables_name);
    for (; own && *own; own += strcspn(own, ":"), own += *own == ':')
        if (!starts(own, of_malloc)) add_tunable(made, own, strcspn(own, ":"));
    for (size_t i = 0; i < made->knobs.count; i++) {
        const char *variable = made->knobs.list[i];
        if (!starts(variable, tunables_name)) continue;
        variable += sizeof tunables_name - 1;
        add_tunable(made, variable, strlen(variable));
    }
    if (needed && starts(needed, tunables_name)) {
        needed += sizeof tunables_name - 1;
        add_tunable(made, needed, strlen(needed));
    }
    return made->tunables[sizeof tunables_name - 1] != 0;
}

static const char *pass_name(enum ht_pass pass) {
    switch (pass) {
    case HT_PASS_FLAT: return "time";
    case HT_PASS_TIMED: return "timed";
    case HT_PASS_MEMORY: return "memory";
    case HT_PASS_SNAPSHOT: return "snapshot";
    case HT_PASS_VERIFY:
    case HT_PASS_TORTURE: return "verify";
    case HT_PASS_LIMIT: return "limit";
    case HT_PASS_GROUP: return "group";
    default: return "describe";
    }
}

// Ours without preloads, which would trace or replace what is measured, and without what sets an allocator: whoever replays
// a trace gets the same figures. Plus the choice's knobs and settings, and padding of random length,
// because that length moves the stack, and with it the caches' luck. run: the number of this run, given to a
// command that wraps the child together with the allocator and the pass; 0: there is no such command, and
// nothing is given.
static void child_environment_make(struct ht_child_environment *made, const struct ht_choice *choice,
                                   const struct ht_job *job, uint64_t run, struct ht_random *random) {
    size_t count = 0;
    ht_knob_variables_make(&choice->knobs, false, &made->knobs);
    for (char **at = environ; *at && count < HT_ENVIRONMENT_MAX - OWN_VARIABLES - 1; at++) {
        if (starts(*at, "LD_PRELOAD=") || starts(*at, "MALLOC_WRAP_") || ht_sets_allocator(*at)) continue;
        made->variables[count++] = *at;
    }
    for (size_t i = 0; i < made->knobs.count; i++)
        if (!starts(made->knobs.list[i], tunables_name)) made->variables[count++] = made->knobs.list[i];
    if (make_tunables(made, choice)) made->variables[count++] = made->tunables;
    uint32_t length = 16 + ht_random_below(random, HT_PADDING_BYTES_MAX - 17);
    memset(made->padding, 'x', length);
    made->padding[length] = 0;
    memcpy(made->padding, "HEAPTAPE_PAD=", 13);
    made->variables[count++] = made->padding;
    if (job->virtual_time) made->variables[count++] = (char *)HT_CLOCK_HELD;
    if (job->processors) {
        snprintf(made->processors, sizeof made->processors, HT_PROCESSORS_VARIABLE "%" PRIu32,
                 job->processors);
        made->variables[count++] = made->processors;
    }
    if (choice->preload[0]) {
        snprintf(made->preload, sizeof made->preload, "LD_PRELOAD=%s", choice->preload);
        made->variables[count++] = made->preload;
    }
    if (run) {
        snprintf(made->allocator, sizeof made->allocator, "HEAPTAPE_ALLOCATOR=%s", choice->name);
        snprintf(made->pass, sizeof made->pass, "HEAPTAPE_PASS=%s", pass_name((enum ht_pass)job->pass));
        snprintf(made->run, sizeof made->run, "HEAPTAPE_RUN=%" PRIu64, run);
        made->variables[count++] = made->allocator;
        made->variables[count++] = made->pass;
        made->variables[count++] = made->run;
    }
    made->variables[count] = NULL;
}

// A process that starts new ones faster than they can be ended is given up.
enum { POLLS_MAX = 2000, POLL_NS = 1000000 };

// Processes that a measured child starts and leaves behind. They would take time from the runs after it, and write into the
// memory that all runs share.

// Ends our children but the spared one, where they have not ended. Processes become the first thread's, as that one lives as long
// as we do. Returns how many there were, and counts in `ended` those that are gone.
static uint32_t end_children(pid_t spared, uint32_t *ended) {
    char path[64];
    int child;
    uint32_t found = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    if (!list) return 0;
    while (fscanf(list, "%d", &child) == 1) {
        if (child == spared) continue;
        found++;
        kill(child, SIGKILL);
        *ended += waitpid(child, NULL, WNOHANG) > 0;
    }
    fclose(list);
    return found;
}

static bool has_children(pid_t spared) {
    char path[64];
    int child;
    bool any = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *list = fopen(path, "re");
    if (!list) return true;
    while (fscanf(list, "%d", &child) == 1) any = any || child != spared;
    fclose(list);
    return any;
}

// From now on processes that our children leave behind become ours. False if not: where we had children before,
// which our parent may need, we could not separate theirs from those.
// spared: a child of ours that has children of its own and keeps them, 0: none.
static bool left_processes_adopt(pid_t spared) {
    return !has_children(spared) && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

// Ends all our children but the spared one; only after left_processes_adopt(). Returns how many were left, including those that
// had ended meanwhile.
static uint32_t left_processes_end(pid_t spared) {
    const struct timespec moment = {.tv_nsec = POLL_NS};
    uint32_t ended = 0;
    for (int polls = 0; polls < POLLS_MAX && end_children(spared, &ended); polls++) nanosleep(&moment, NULL);
    return ended;
}

// Often enough for a watching user, too seldom to disturb the measured child.
enum { POLL_MS = 200, IDLE_SECONDS_MAX = 60 };

struct polled_child {
    pid_t child;
    int process_fd;  // -1: this kernel has none
    double begun_s;
    uint64_t cpu_ns;
    uint32_t idle_seconds_max;
    uint32_t idle_polls;  // in a row; counted, because while we are stopped ourselves no time passes
};

static bool ended(const struct polled_child *polled, int *status) {
    pid_t got;
    while ((got = waitpid(polled->child, status, WNOHANG)) < 0 && errno == EINTR) {
    }
    return got != 0;
}

static void wait_a_little(const struct polled_child *polled) {
    const struct timespec moment = {.tv_nsec = 5000000};
    struct pollfd process = {.fd = polled->process_fd, .events = POLLIN};
    if (polled->process_fd >= 0) poll(&process, 1, POLL_MS);
    else nanosleep(&moment, NULL);
}

// Whether it just sleeps. One that is stopped, by a debugger say, or waits for a disk is not to blame.
static bool sleeps(pid_t child) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    ht_kernel_read(path, text, sizeof text);
    return ht_kernel_state(text) == 'S';
}

static bool hangs(struct polled_child *polled) {
    clockid_t clock;
    struct timespec used = {0};
    if (polled->process_fd < 0) return false;  // then polls are not POLL_MS apart
    if (clock_getcpuclockid(polled->child, &clock) || clock_gettime(clock, &used)) return false;
    uint64_t cpu_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
    bool idle = cpu_ns == polled->cpu_ns && sleeps(polled->child);
    polled->cpu_ns = cpu_ns;
    polled->idle_polls = idle ? polled->idle_polls + 1 : 0;
    return polled->idle_polls >= polled->idle_seconds_max * 1000 / POLL_MS;
}

static bool give_up(struct polled_child *polled, const struct ht_child_watch *watch, char *problem,
                    size_t room) {
    double seconds = ht_now_s() - polled->begun_s;
    char limit[32];
    if (watch->waiting) watch->waiting(watch->context, seconds);
    if (watch->timeout_ns && seconds * 1e9 > (double)watch->timeout_ns) {
        snprintf(problem, room, "was killed after %s s (--timeout)",
                 ht_figures(limit, (double)watch->timeout_ns / 1e9, 3));
        return true;
    }
    if (watch->deadline_ns && ht_now_ns(CLOCK_MONOTONIC) >= watch->deadline_ns) {
        *watch->cut_short = true;
        snprintf(problem, room, "was cut short by --budget");
        return true;
    }
    if (!watch->may_idle && hangs(polled)) {
        *watch->hung = true;
        snprintf(problem, room, "hung without CPU time for %u s and was killed", polled->idle_seconds_max);
        return true;
    }
    return false;
}

// Waits until the child has ended. Returns true if it ended by itself; false, with problem, if it was killed
// here.
static bool child_await(pid_t child, const struct ht_child_watch *watch, int *status, char *problem,
                        size_t room) {
    struct polled_child polled = {.child = child,
                                  .process_fd = (int)syscall(SYS_pidfd_open, child, 0),
                                  .begun_s = ht_now_s(),
                                  .idle_seconds_max =
                                      watch->idle_seconds ? watch->idle_seconds : IDLE_SECONDS_MAX};
    bool by_itself = true;
    while (!ended(&polled, status)) {
        if (by_itself && give_up(&polled, watch, problem, room)) {
            kill(child, SIGKILL);
            by_itself = false;
        }
        wait_a_little(&polled);
    }
    if (polled.process_fd >= 0) close(polled.process_fd);
    return by_itself;
}

// A signal handler has no argument to carry state in: hence these two.
static volatile sig_atomic_t interrupted;  // by this signal
static volatile sig_atomic_t child_pid;

enum { PROBLEM_BYTES = 300 };

static void on_signal(int number) {
    interrupted = number;
    if (child_pid > 0) kill((pid_t)child_pid, SIGKILL);
}

bool ht_child_interrupted(void) { return interrupted; }

// What is ignored stays ignored: nohup, say. But where SIGCHLD is ignored, the kernel keeps no exit status of
// a child.
void ht_child_catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = on_signal}, before;
        if (sigaction(numbers[i], NULL, &before) || before.sa_handler == SIG_IGN) continue;
        sigaction(numbers[i], &action, NULL);
    }
}

void ht_child_end_as_interrupted(void) {
    if (!interrupted) return;
    signal(interrupted, SIG_DFL);
    raise(interrupted);
}

static int failed_channel(struct ht_child_channel *channel, struct ht_error *error) {
    ht_error_system(error, "replay", "shared memory for the results");
    ht_child_channel_close(channel);
    return -1;
}

// Children write there, but its size is for nobody to change. The lock is this process's, and ends with it: a
// child that a wrapper starts late finds out by that (measured_main.c).
static bool share(struct ht_child_channel *channel) {
    channel->exchange_fd = memfd_create("heaptape-exchange", MFD_ALLOW_SEALING);
    if (channel->exchange_fd < 0 || ftruncate(channel->exchange_fd, (off_t)channel->exchange_bytes) ||
        fcntl(channel->exchange_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ||
        fcntl(channel->exchange_fd, F_SETLK, &(struct flock){.l_type = F_WRLCK})) {
        return false;
    }
    void *map =
        mmap(NULL, channel->exchange_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, channel->exchange_fd, 0);
    if (map != MAP_FAILED) channel->shared = map;
    return map != MAP_FAILED;
}

static size_t live_words(const struct ht_built_form *built) { return built->form->slots / 64 + 1; }

int ht_child_channel_open(struct ht_child_channel *channel, const struct ht_built_form *built, pid_t spared,
                          struct ht_error *error) {
    uint32_t samples = built ? built->form->samples : 0, readings = built ? built->form->readings : 0;
    size_t live_bytes = built ? live_words(built) * sizeof(uint64_t) : 0;
    *channel = (struct ht_child_channel){
        .built = built, .exchange_fd = -1, .spared = spared, .adopts = left_processes_adopt(spared)};
    channel->answer_bytes =
        HT_EXCHANGE_RSS_OFFSET + 2ull * samples * sizeof(uint64_t) + readings * sizeof(struct ht_reading);
    channel->exchange_bytes = channel->answer_bytes + live_bytes + samples * sizeof(uint64_t);
    if (!share(channel)) return failed_channel(channel, error);
    channel->exchange = calloc(1, channel->answer_bytes);
    if (!channel->exchange) {
        errno = ENOMEM;
        return failed_channel(channel, error);
    }
    channel->rss_bytes = (const uint64_t *)((char *)channel->exchange + HT_EXCHANGE_RSS_OFFSET);
    channel->untouched_bytes = channel->high_bytes = channel->rss_bytes + samples;
    channel->readings = (const struct ht_reading *)(channel->untouched_bytes + samples);
    return 0;
}

void ht_child_channel_close(struct ht_child_channel *channel) {
    if (channel->shared) munmap(channel->shared, channel->exchange_bytes);
    if (channel->exchange_fd >= 0) close(channel->exchange_fd);
    free(channel->exchange);
    channel->shared = channel->exchange = NULL;
    channel->exchange_fd = -1;
}

// The first to run out of memory should be the child, not the launcher with the results of hours.
static void offer_to_oom_killer(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "1000", 4) < 0) {
    }  // nothing is lost but the order
    close(fd);
}

// Whatever we inherited: wrappers, allocators and the cycle counter's trap rely on theirs. Ctrl-C and a
// hangup go to all of the terminal's foreground group, but how a run ends is the launcher's to say, who kills
// it.
static void set_signals(void) {
    sigset_t none;
    for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

// Between fork and exec. What the child or its wrapper prints is no result.
static void become_child(pid_t launcher) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // it died before that took effect
    offer_to_oom_killer();
    set_signals();
    dup2(STDERR_FILENO, STDOUT_FILENO);
}

// Where the kernel puts what is mapped is chance, and some allocators draw more chance from it (jemalloc jitters its
// decay by an address). Who started us may have fixed addresses, but only runs that shall repeat want them so. Not
// permitted in some containers: then it is left to chance.
//
// Some kernels put the heap of a program that a loader was asked to start behind that loader, where it
// has no room to grow, unless addresses are left to chance.
static void set_addresses(const struct ht_job *job, const struct ht_choice *choice) {
    int persona = personality(0xffffffff);
    bool fixed = job->fixed_addresses && !choice->libc.loader[0];
    if (persona < 0) return;
    personality((unsigned long)(fixed ? persona | ADDR_NO_RANDOMIZE : persona & ~ADDR_NO_RANDOMIZE));
}

static _Noreturn void refuse(const struct ht_child_channel *channel, const char *what) {
    struct ht_outcome *outcome = &channel->shared->outcome;
    snprintf(outcome->message, sizeof outcome->message, "%s: %s", what, strerror(errno));
    outcome->state = HT_OUTCOME_REFUSED;
    _exit(127);
}

static void disable_huge_pages(const struct ht_child_channel *channel) {
    if (ht_huge_pages_disable(channel->thp_disable)) refuse(channel, "huge pages cannot be disabled");
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < 0) return;
    CPU_SET((unsigned)cpu, &set);
    // A processor that has gone meanwhile is no reason not to run.
    sched_setaffinity(0, sizeof set, &set);
}

// What to execute: some words of a command that runs the words after them, then the child's own.
struct command {
    char *words[10 + HT_SIMULATION_WORDS_MAX];  // NULL after the last
    size_t count;
};

static void add_words(struct command *command, size_t count, const char *const *words) {
    for (size_t i = 0; i < count; i++) command->words[command->count++] = (char *)words[i];
    command->words[command->count] = NULL;
}

static void add_child(struct command *command, const struct ht_choice *choice, const char *form,
                      const char *exchange) {
    const char *const by_loader[] = {choice->libc.loader, "--library-path", choice->libc.folders};
    // The child was linked with a C library that is whole.
    static const char *const parts[] = {"--preload", "libpthread.so.0:libdl.so.2"};
    const char *const child[] = {choice->executable, form, exchange};
    if (choice->libc.loader[0]) add_words(command, 3, by_loader);
    if (choice->libc.in_parts) add_words(command, 2, parts);
    add_words(command, 3, child);
}

// How one child is started.
struct start {
    char **environment;
    const char *wrapper;  // NULL: none
    int cpu;
    pid_t launcher;
    int listener_socket;  // of the processors that it is shown
};

// From here on the launcher answers.
static void show_processors(const struct ht_child_channel *channel, const struct start *start) {
    const struct ht_job *job = &channel->exchange->job;
    if (!job->processors) return;
    if (start->cpu < 0) ht_processors_restrict(job->processors);
    if (!ht_processor_filter_install(start->listener_socket, job->counted))
        refuse(channel, "it cannot be shown another number of processors");
}

static _Noreturn void exec_child(const struct ht_child_channel *channel, const struct ht_choice *choice,
                                 const struct start *start) {
    char form[32], exchange[16];
    struct command command = {.count = 0};
    const struct ht_built_form *before = channel->built ? channel->built->before : NULL;
    snprintf(form, sizeof form, before ? "%d,%d" : "%d", channel->built ? channel->built->fd : -1,
             before ? before->fd : -1);
    snprintf(exchange, sizeof exchange, "%d", channel->exchange_fd);
    become_child(start->launcher);
    pin(start->cpu);
    set_addresses(&channel->exchange->job, choice);
    disable_huge_pages(channel);
    if (channel->group && !ht_memory_group_join(channel->group))
        refuse(channel, "it cannot join its control group");
    if (channel->simulation) {
        add_words(&command, channel->simulation->count, channel->simulation->word);
        ht_simulation_fix_addresses();
    } else if (start->wrapper) {
        const char *const words[] = {"/bin/sh", "-c", start->wrapper, "sh"};
        add_words(&command, 4, words);
    }
    add_child(&command, choice, form, exchange);
    show_processors(channel, start);
    execvpe(command.words[0], command.words, start->environment);
    refuse(channel, channel->simulation ? "valgrind cannot be run" : "its program cannot be run");
}

static bool judge(const struct ht_child_channel *channel, int status, struct ht_oom_kills before,
                  char *problem, size_t room) {
    const struct ht_outcome *outcome = &channel->exchange->outcome;
    const char *wrap = channel->exchange->job.pass == HT_PASS_DESCRIBE ? NULL : channel->wrap;
    char text[HT_NUMBER_OF_BYTES];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        snprintf(problem, room, "killed by SIGKILL%s", ht_oom_kills_clause(before, ht_oom_kills_read()));
    } else if (WIFSIGNALED(status)) {
        snprintf(problem, room, "killed by %s (SIG%s)", strsignal(WTERMSIG(status)),
                 sigabbrev_np(WTERMSIG(status)));
    } else if (outcome->state == HT_OUTCOME_REFUSED) {
        snprintf(problem, room, "%.300s", outcome->message);
    } else if (outcome->state != HT_OUTCOME_DONE || WEXITSTATUS(status)) {
        snprintf(problem, room, "ended with status %d%s%s%.200s", WEXITSTATUS(status),
                 outcome->state == HT_OUTCOME_DONE ? "" : " before the replay was done",
                 wrap ? ", under " : "", wrap ? wrap : "");
    } else if (outcome->failures) {
        snprintf(problem, room, "%s failed, but not when recorded; the first: %s",
                 ht_number_of(text, outcome->failures, "call"), outcome->first_failure);
    } else if (channel->left) {
        snprintf(problem, room, "started %s that did not end with it: its figures do not include them",
                 ht_number_of(text, channel->left, "process"));
    } else {
        return true;
    }
    return false;
}

// Runs the child to its end. False, with problem, if it did not come to one by itself.
static bool run_to_end(struct ht_child_channel *channel, const struct ht_choice *choice,
                       const struct ht_job *job, struct start *start, struct ht_random *random, int *status,
                       char *problem, size_t problem_room) {
    static struct ht_child_environment environment;  // too large for a small stack
    char wrapper[4200];
    bool wrapped = channel->wrap && job->pass != HT_PASS_DESCRIBE;
    snprintf(wrapper, sizeof wrapper, "exec %s \"$@\"", wrapped ? channel->wrap : "");
    child_environment_make(&environment, choice, job, wrapped ? ++channel->runs : 0, random);
    start->environment = environment.variables;
    start->wrapper = wrapped ? wrapper : NULL;
    start->launcher = getpid();
    pid_t child = fork();
    if (child == 0) exec_child(channel, choice, start);
    if (child < 0) {
        snprintf(problem, problem_room, "no new process: %s", strerror(errno));
        return false;
    }
    child_pid = child;
    if (interrupted) kill(child, SIGKILL);  // the signal may have come before child_pid was set
    struct ht_child_watch watch = channel->watch;
    // A wrapper may have nothing to do itself, and recorded pauses are meant to be waited for.
    watch.may_idle = wrapped || job->real_ns_per_trace_ns > 0;
    watch.hung = &channel->hung;
    watch.cut_short = &channel->cut_short;
    bool by_itself = child_await(child, &watch, status, problem, problem_room);
    child_pid = 0;
    // Wrappers may have a use for what they leave.
    channel->left = channel->adopts && !channel->wrap ? left_processes_end(channel->spared) : 0;
    return by_itself;
}

// What the child is to do, as it is asked: everything that was there before is gone.
static struct ht_job ask(struct ht_child_channel *channel, const struct ht_choice *choice,
                         const struct ht_job *job) {
    struct ht_exchange *shared = channel->shared;
    const struct ht_built_form *built = channel->built;
    memset(shared, 0, sizeof *shared);
    memcpy(&shared->job, job, sizeof *job);
    shared->job.preloaded = choice->preload[0] != 0;
    shared->job.expected_device = choice->device;
    shared->job.expected_inode = choice->inode;
    shared->job.libc_device = choice->libc.device;
    shared->job.libc_inode = choice->libc.inode;
    shared->job.known = ht_known_alignments_of(choice);
    if (choice->kind) snprintf(shared->job.kind, HT_KIND_BYTES, "%s", choice->kind->name);
    if (built) {
        uint64_t *live = (uint64_t *)((char *)shared + channel->answer_bytes),
                 *own = live + live_words(built);
        memcpy(live, built->live_slots, live_words(built) * sizeof *live);
        if (channel->own_bytes) memcpy(own, channel->own_bytes, built->form->samples * sizeof *own);
        else memset(own, 0, built->form->samples * sizeof *own);
    }
    struct ht_job asked;
    memcpy(&asked, &shared->job, sizeof asked);
    memcpy(&channel->exchange->job, &asked, sizeof asked);
    return asked;
}

// Copies what the child left and checks it. problem says what is wrong with an answer that cannot be right.
static bool take_answer(struct ht_child_channel *channel, const struct ht_job *asked, char *problem,
                        size_t room) {
    memcpy(channel->exchange, channel->shared, channel->answer_bytes);
    return ht_child_answer_check(channel->exchange, asked, channel->built, channel->rss_bytes,
                                 channel->high_bytes, problem, room);
}

// The same, where the child is shown other processors than there are, if it is.
static bool run_shown(struct ht_child_channel *channel, const struct ht_choice *choice,
                      const struct ht_job *job, int cpu, struct ht_random *random, int *status, char *problem,
                      size_t room) {
    struct start start = {.cpu = cpu, .listener_socket = -1};
    struct ht_shown_processors shown;
    channel->processors_asked = false;
    if (!job->processors) return run_to_end(channel, choice, job, &start, random, status, problem, room);
    if (!ht_shown_processors_start(&shown, job->processors, &channel->shared->chosen,
                                   job->counted ? channel->counter : NULL)) {
        snprintf(problem, room, "no thread to show it other processors: %s", strerror(errno));
        return false;
    }
    start.listener_socket = shown.listener.sockets[1];
    bool by_itself = run_to_end(channel, choice, job, &start, random, status, problem, room);
    ht_shown_processors_stop(&shown);
    channel->processors_asked = shown.asked;
    if (!shown.problem) return by_itself;
    snprintf(problem, room, "it cannot be shown another number of processors: %s: %s", shown.problem,
             strerror(shown.problem_errno));
    return false;
}

static bool run_once(struct ht_child_channel *channel, const struct ht_choice *choice,
                     const struct ht_job *job, int cpu, struct ht_random *random, int *status, char *problem,
                     size_t problem_room) {
    bool streamed = job->pass != HT_PASS_DESCRIBE && channel->built->form->streamed;
    struct ht_decoder *decoder = NULL;
    struct ht_error error = {0};
    char nonsense[PROBLEM_BYTES];
    struct ht_job asked = ask(channel, choice, job);
    channel->hung = channel->cut_short = false;
    if (choice->refused_calls) {
        take_answer(channel, &asked, nonsense, sizeof nonsense);
        channel->exchange->outcome.failures = choice->refused_calls;
        snprintf(problem, problem_room, "%s", choice->refusal);
        return false;
    }
    // Decoding takes caches from what is timed. Where calls wait for their recorded time, a pause for it would make them late.
    bool timed = job->pass == HT_PASS_FLAT || job->pass == HT_PASS_TIMED;
    bool alternate = timed && job->real_ns_per_trace_ns == 0;
    if (streamed && !(decoder = ht_decoder_start(channel->built, job->scale, alternate, &error))) {
        snprintf(problem, problem_room, "%s", error.message);
        take_answer(channel, &asked, nonsense, sizeof nonsense);
        return false;
    }
    struct ht_oom_kills kills = ht_oom_kills_read();
    bool ran = run_shown(channel, choice, job, cpu, random, status, problem, problem_room);
    bool decoded = !decoder || !ht_decoder_stop(decoder, &error);
    bool sound = take_answer(channel, &asked, nonsense, sizeof nonsense);
    channel->processors_asked |= channel->exchange->outcome.processors_asked != 0;
    if (!decoded) snprintf(problem, problem_room, "%s", error.message);
    else if (ran && !sound && WIFEXITED(*status)) snprintf(problem, problem_room, "%s", nonsense);
    else return ran && judge(channel, *status, kills, problem, problem_room) && !interrupted;
    return false;
}

// A thread that blocks the signal of the watch (peak_watch.h) ends the process where it gives memory back: then it goes without.
bool ht_child_run(struct ht_child_channel *channel, const struct ht_choice *choice, const struct ht_job *job,
                  int cpu, struct ht_random *random, char *problem, size_t problem_room) {
    int status = 0;
    struct ht_job again = *job;
    bool done = run_once(channel, choice, job, cpu, random, &status, problem, problem_room);
    bool by_watch = WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
    if (done || !by_watch || job->pass != HT_PASS_MEMORY || job->unwatched) return done;
    again.unwatched = 1;
    return run_once(channel, choice, &again, cpu, random, &status, problem, problem_room);
}
