#include "child_run.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "form_streamed.h"

extern char **environ;

enum { PADDING_BYTES_MAX = 4096, ENVIRONMENT_MAX = 4096 };

// A signal handler has no argument to carry state in: hence these two.
static volatile sig_atomic_t interrupted;
static volatile sig_atomic_t child_pid;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
    if (child_pid > 0) kill((pid_t)child_pid, SIGKILL);
}

bool ht_child_interrupted(void) { return interrupted; }

void ht_child_catch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int ht_child_channel_open(struct ht_child_channel *channel, const struct ht_built_form *built,
                          struct ht_error *error) {
    int fd = memfd_create("heaptape-exchange", 0);
    uint32_t samples = built ? built->form->samples : 0, readings = built ? built->form->readings : 0;
    *channel = (struct ht_child_channel){.built = built, .exchange_fd = fd};
    channel->exchange_bytes =
        HT_EXCHANGE_RSS_OFFSET + samples * sizeof(uint64_t) + readings * sizeof(struct ht_reading);
    if (fd < 0 || ftruncate(fd, (off_t)channel->exchange_bytes)) {
        return ht_error_system(error, "replay", "shared memory for the results");
    }
    void *map = mmap(NULL, channel->exchange_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return ht_error_system(error, "replay", "shared memory for the results");
    channel->exchange = map;
    channel->rss_bytes = (const uint64_t *)((char *)map + HT_EXCHANGE_RSS_OFFSET);
    channel->readings = (const struct ht_reading *)(channel->rss_bytes + samples);
    return 0;
}

void ht_child_channel_close(struct ht_child_channel *channel) {
    if (channel->exchange) munmap(channel->exchange, channel->exchange_bytes);
    if (channel->exchange_fd >= 0) close(channel->exchange_fd);
}

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

// The environment of the child: ours without preloads, which would trace or replace what is measured, plus
// padding of random length, because that length moves the stack, and with it the caches' luck.
static void make_environment(const struct ht_choice *choice, struct ht_random *random, char **environment,
                             char *preload, size_t preload_room, char padding[PADDING_BYTES_MAX]) {
    size_t count = 0;
    for (char **at = environ; *at && count < ENVIRONMENT_MAX - 3; at++) {
        if (!starts(*at, "LD_PRELOAD=") && !starts(*at, "MALLOC_WRAP_")) environment[count++] = *at;
    }
    uint32_t length = 16 + ht_random_below(random, PADDING_BYTES_MAX - 17);
    memset(padding, 'x', length);
    padding[length] = 0;
    memcpy(padding, "HEAPTAPE_PAD=", 13);
    environment[count++] = padding;
    if (choice->preload[0]) {
        snprintf(preload, preload_room, "LD_PRELOAD=%s", choice->preload);
        environment[count++] = preload;
    }
    environment[count] = NULL;
}

static _Noreturn void exec_child(const struct ht_child_channel *channel, const struct ht_choice *choice,
                                 char **environment, int cpu, pid_t launcher) {
    char form[16], exchange[16];
    snprintf(form, sizeof form, "%d", channel->built ? channel->built->fd : -1);
    snprintf(exchange, sizeof exchange, "%d", channel->exchange_fd);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // it died before that took effect
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= 0) CPU_SET(cpu, &set);
    // A processor that has gone meanwhile is no reason not to run.
    if (cpu >= 0) sched_setaffinity(0, sizeof set, &set);
    char output[600] = "";
    if (channel->callgrind_path) {
        snprintf(output, sizeof output, "--callgrind-out-file=%s", channel->callgrind_path);
        // What it says goes nowhere: its parent tells how it ended.
        char *const under[] = {"valgrind",
                               "-q",
                               "--tool=callgrind",
                               output,
                               "--toggle-collect=ht_engine_run",
                               "--log-file=/dev/null",
                               (char *)choice->executable,
                               form,
                               exchange,
                               NULL};
        execvpe("valgrind", under, environment);
    } else {
        char *const arguments[] = {(char *)choice->executable, form, exchange, NULL};
        execve(choice->executable, arguments, environment);
    }
    struct ht_outcome *outcome = &channel->exchange->outcome;
    snprintf(outcome->message, sizeof outcome->message, "%s can't be run: %s",
             output[0] ? "valgrind" : "its program", strerror(errno));
    outcome->state = HT_OUTCOME_REFUSED;
    _exit(127);
}

static bool judge(const struct ht_outcome *outcome, int status, char *problem, size_t room) {
    if (WIFSIGNALED(status)) {
        snprintf(problem, room, "killed by %s (SIG%s)", strsignal(WTERMSIG(status)),
                 sigabbrev_np(WTERMSIG(status)));
    } else if (outcome->state == HT_OUTCOME_REFUSED) {
        snprintf(problem, room, "%.300s", outcome->message);
    } else if (outcome->state != HT_OUTCOME_DONE || WEXITSTATUS(status)) {
        snprintf(problem, room, "ended with status %d%s", WEXITSTATUS(status),
                 outcome->state == HT_OUTCOME_DONE ? "" : " before the replay was done");
    } else if (outcome->failures) {
        snprintf(problem, room, "%llu calls failed that did not when recorded; the first: %s",
                 (unsigned long long)outcome->failures, outcome->first_failure);
    } else {
        return true;
    }
    return false;
}

// Runs the child to its end. False, with problem, if there was none.
static bool run_to_end(struct ht_child_channel *channel, const struct ht_choice *choice, int cpu,
                       struct ht_random *random, int *status, char *problem, size_t problem_room) {
    char *environment[ENVIRONMENT_MAX], padding[PADDING_BYTES_MAX], preload[4200];
    make_environment(choice, random, environment, preload, sizeof preload, padding);
    pid_t launcher = getpid(), child = fork();
    if (child == 0) exec_child(channel, choice, environment, cpu, launcher);
    if (child < 0) {
        snprintf(problem, problem_room, "no new process: %s", strerror(errno));
        return false;
    }
    child_pid = child;
    if (interrupted) kill(child, SIGKILL);  // the signal may have come before child_pid was set
    while (waitpid(child, status, 0) < 0 && errno == EINTR) {
    }
    child_pid = 0;
    return true;
}

bool ht_child_run(struct ht_child_channel *channel, const struct ht_choice *choice, const struct ht_job *job,
                  int cpu, struct ht_random *random, char *problem, size_t problem_room) {
    bool streamed = job->pass != HT_PASS_DESCRIBE && channel->built->form->streamed;
    struct ht_decoder *decoder = NULL;
    struct ht_error error = {0};
    int status = 0;
    memset(channel->exchange, 0, sizeof *channel->exchange);
    channel->exchange->job = *job;
    channel->exchange->job.preloaded = choice->preload[0] != 0;
    channel->exchange->job.expected_device = choice->device;
    channel->exchange->job.expected_inode = choice->inode;
    // Where calls wait for their recorded time, a pause to decode would make them late.
    bool alternate = job->real_ns_per_trace_ns == 0;
    if (streamed && !(decoder = ht_decoder_start(channel->built, job->scale, alternate, &error))) {
        snprintf(problem, problem_room, "%s", error.message);
        return false;
    }
    bool ran = run_to_end(channel, choice, cpu, random, &status, problem, problem_room);
    if (decoder && ht_decoder_stop(decoder, &error)) {
        snprintf(problem, problem_room, "%s", error.message);
        return false;
    }
    return ran && judge(&channel->exchange->outcome, status, problem, problem_room) && !interrupted;
}
