// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child_run.h"
#include "grow.h"
#include "option_values.h"
#include "python_program.h"

// Told to stop, we have as much patience with a judge that says nothing; each further signal takes a second of it.
enum { READ_BYTES = 4096, PATIENCE_S = 10, SECOND_MS = 1000 };

// What a user set for Python programs of his own: the judge would print in that encoding, and ask for commands at its end. One
// thread is enough for it; more cost address space and processes, which may be limited.
static void set_environment(void) {
    unsetenv("PYTHONIOENCODING");
    unsetenv("PYTHONINSPECT");
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
}

// Signals that end us are ours: the judge still has to print what there is by then. Only the comparison goes to stdout: what
// Python's own start-up prints goes to stderr.
static void become_judge(int socket) {
    static struct ht_python_program python;
    char numbers[2][16];
    char *words[HT_PYTHON_WORDS_MAX + 4];
    size_t count = 0;
    int out = dup(STDOUT_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    ht_python_find(&python);
    for (; python.words[count]; count++) words[count] = python.words[count];
    snprintf(numbers[0], sizeof numbers[0], "%d", socket);
    snprintf(numbers[1], sizeof numbers[1], "%d", out);
    words[count++] = (char *)"judge";
    words[count++] = numbers[0];
    words[count++] = numbers[1];
    words[count] = NULL;
    fcntl(socket, F_SETFD, 0);
    set_environment();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    execvp(python.interpreter, words);
    _exit(127);
}

int ht_judge_attach(struct ht_judge *judge, struct ht_error *error) {
    const char *given = getenv("HEAPTAPE_JUDGE_FD");
    struct sockaddr peer;
    socklen_t peer_bytes = sizeof peer, type_bytes = sizeof(int);
    uint64_t number;
    int type;
    *judge = (struct ht_judge){.socket = -1};
    if (!given) return 0;
    if (!ht_parse_whole(given, 0, INT_MAX, &number) || getpeername((int)number, &peer, &peer_bytes) ||
        peer.sa_family != AF_UNIX || getsockopt((int)number, SOL_SOCKET, SO_TYPE, &type, &type_bytes) ||
        type != SOCK_STREAM) {
        snprintf(error->message, sizeof error->message,
                 "HEAPTAPE_JUDGE_FD: expected the descriptor of a connected stream socket, found %s", given);
        error->status = HT_EXIT_USAGE;
        return -1;
    }
    unsetenv("HEAPTAPE_JUDGE_FD");
    fcntl((int)number, F_SETFD, FD_CLOEXEC);
    *judge = (struct ht_judge){.pid = getppid(), .attached = true, .socket = (int)number};
    return 0;
}

void ht_judge_start(struct ht_judge *judge) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return;
    pid_t pid = fork();
    if (pid == 0) become_judge(ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return;
    }
    judge->pid = pid;
    judge->socket = ends[0];
}

// Takes the first line off what has come. NULL: it is not whole, or is no object.
static json_t *take_line(struct ht_judge *judge, bool *whole) {
    char *end = judge->line_bytes ? memchr(judge->line, '\n', judge->line_bytes) : NULL;
    *whole = end != NULL;
    if (!end) return NULL;
    json_t *object = json_loadb(judge->line, (size_t)(end - judge->line), 0, NULL);
    judge->line_bytes -= (size_t)(end + 1 - judge->line);
    memmove(judge->line, end + 1, judge->line_bytes);
    return object;
}

// False: it says nothing any more. A signal that comes just before poll() does not end that, hence the seconds.
static bool await_words(const struct ht_judge *judge) {
    struct pollfd socket = {.fd = judge->socket, .events = POLLIN};
    for (int waited_s = 0; poll(&socket, 1, SECOND_MS) <= 0;)
        if (ht_child_interrupted() && ++waited_s > PATIENCE_S) return false;
    return true;
}

json_t *ht_judge_read(struct ht_judge *judge) {
    bool whole;
    for (;;) {
        json_t *object = take_line(judge, &whole);
        if (whole) return object;
        if (!ht_grow(&judge->line, &judge->line_room, judge->line_bytes + READ_BYTES, 1)) return NULL;
        if (!await_words(judge)) return NULL;
        ssize_t got = recv(judge->socket, judge->line + judge->line_bytes, READ_BYTES, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return NULL;
        judge->line_bytes += (size_t)got;
    }
}

void ht_judge_write(struct ht_judge *judge, json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (!text) return;
    size_t bytes = strlen(text);
    text[bytes++] = '\n';  // over the terminating zero
    for (size_t sent = 0; sent < bytes;) {
        ssize_t done = send(judge->socket, text + sent, bytes - sent, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break;
        sent += (size_t)done;
    }
    free(text);
}

double ht_judge_cpu_s(const struct ht_judge *judge) {
    clockid_t clock;
    struct timespec used;
    if (!judge->pid || clock_getcpuclockid(judge->pid, &clock) || clock_gettime(clock, &used)) return 0;
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

void ht_judge_end(struct ht_judge *judge) {
    if (judge->socket < 0) return;
    close(judge->socket);
    if (!judge->attached) kill(judge->pid, SIGKILL);
    while (!judge->attached && waitpid(judge->pid, NULL, 0) < 0 && errno == EINTR) continue;
    free(judge->line);
    *judge = (struct ht_judge){.socket = -1};
}
