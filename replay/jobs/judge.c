// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "grow.h"
#include "python_program.h"

enum { READ_BYTES = 4096 };

// Signals that end us are ours: the judge still has to print what there is by then.
static void become_judge(int socket) {
    static struct ht_python_program python;
    char number[16];
    char *words[HT_PYTHON_WORDS_MAX + 3];
    size_t count = 0;
    ht_python_find(&python);
    for (; python.words[count]; count++) words[count] = python.words[count];
    snprintf(number, sizeof number, "%d", socket);
    words[count++] = (char *)"judge";
    words[count++] = number;
    words[count] = NULL;
    fcntl(socket, F_SETFD, 0);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    execvp(python.interpreter, words);
    _exit(127);
}

bool ht_judge_start(struct ht_judge *judge) {
    int ends[2];
    *judge = (struct ht_judge){.socket = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return false;
    pid_t pid = fork();
    if (pid == 0) become_judge(ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    judge->pid = pid;
    judge->socket = ends[0];
    return true;
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

json_t *ht_judge_read(struct ht_judge *judge) {
    bool whole;
    for (;;) {
        json_t *object = take_line(judge, &whole);
        if (whole) return object;
        if (!ht_grow(&judge->line, &judge->line_room, judge->line_bytes + READ_BYTES, 1)) return NULL;
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
    if (!judge->pid) return;
    close(judge->socket);
    while (waitpid(judge->pid, NULL, 0) < 0 && errno == EINTR) continue;
    free(judge->line);
    *judge = (struct ht_judge){.socket = -1};
}
