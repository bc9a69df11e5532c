// SPDX-License-Identifier: Apache-2.0
#include "process_output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VARIABLES_MAX = 8192, WORDS_MAX = 16 };

// Shares this process's memory until it executes: nothing but the kernel is called here.
static pid_t start(const char *const *arguments, char **environment, int output) {
    pid_t child = vfork();
    if (child) return child;
    if (dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0) {
        execve(arguments[0], (char *const *)arguments, environment);
    }
    _exit(127);
}

// What does not fit is read all the same, so that the writer comes to its end.
static void read_all(int fd, char *text, size_t room) {
    char surplus[512];
    size_t used = 0;
    for (;;) {
        size_t left = room - 1 - used;
        ssize_t got = read(fd, left ? text + used : surplus, left ? left : sizeof surplus);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (left) used += (size_t)got;
    }
    text[used] = 0;
}

void ht_process_output(const char *const *arguments, const char *variable, char *text, size_t room) {
    static char *environment[VARIABLES_MAX + 2];
    int ends[2], count = 0;
    text[0] = 0;
    if (variable) environment[count++] = (char *)variable;
    for (char **at = environ; *at && count <= VARIABLES_MAX; at++) environment[count++] = *at;
    environment[count] = NULL;
    if (pipe2(ends, O_CLOEXEC)) return;
    pid_t child = start(arguments, environment, ends[1]);
    close(ends[1]);
    if (child > 0) {
        read_all(ends[0], text, room);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) continue;
    }
    close(ends[0]);
}

const char *const *ht_process_own_command(int without) {
    static char line[24576];
    static const char *words[WORDS_MAX + 1];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), count = 0;
    if (fd < 0) return NULL;
    read_all(fd, line, sizeof line);
    close(fd);
    for (const char *at = line; *at && count < WORDS_MAX; at += strlen(at) + 1) words[count++] = at;
    if (count <= without) return NULL;
    words[count - without] = NULL;
    return words;
}
