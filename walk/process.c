// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "grow.h"

enum { PATH_BYTES = 64, TEXT_BYTES_MAX = 64 << 20 };

static char *read_whole(int fd) {
    size_t room = 1 << 16, length = 0;
    char *text = malloc(room);
    while (text) {
        ssize_t got = read(fd, text + length, room - length - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        length += (size_t)got;
        if (length + 1 < room) continue;
        char *bigger = room < TEXT_BYTES_MAX ? realloc(text, room *= 2) : NULL;
        if (!bigger) {
            free(text);
            return NULL;
        }
        text = bigger;
    }
    if (text) text[length] = 0;
    return text;
}

static int open_of(pid_t pid, const char *name, int flags) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    return open(path, flags | O_CLOEXEC);
}

static char *text_of(pid_t pid, const char *name) {
    int fd = open_of(pid, name, O_RDONLY);
    char *text = fd < 0 ? NULL : read_whole(fd);
    if (fd >= 0) close(fd);
    return text;
}

static int yama_scope(void) {
    int scope = 0, fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    char digit;
    if (fd >= 0 && read(fd, &digit, 1) == 1) scope = digit - '0';
    if (fd >= 0) close(fd);
    return scope;
}

// Why the kernel lets us read no memory: the reasons of ptrace(2), in the order in which it asks.
static int refuse(pid_t pid, const char *what, struct ht_error *error) {
    struct stat owner;
    char path[PATH_BYTES];
    int scope = yama_scope();
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    bool other = !stat(path, &owner) && owner.st_uid != geteuid();
    error->status = 1;
    if (!geteuid())
        snprintf(
            error->message, sizeof error->message,
            "process %d: its %s may not be read, though this is root: it takes CAP_SYS_PTRACE in the user namespace of the process "
            "(docker run --cap-add SYS_PTRACE; in Kubernetes securityContext.capabilities.add: [SYS_PTRACE])",
            (int)pid, what);
    else if (other)
        snprintf(
            error->message, sizeof error->message,
            "process %d: its %s may not be read: it is of user %u, this is user %u, or it may not be dumped (prctl PR_SET_DUMPABLE, changed "
            "users): run as root, or with CAP_SYS_PTRACE",
            (int)pid, what, (unsigned)owner.st_uid, (unsigned)geteuid());
    else
        snprintf(
            error->message, sizeof error->message,
            "process %d: its %s may not be read: kernel.yama.ptrace_scope is %d, under which %s: run as root, or with CAP_SYS_PTRACE%s",
            (int)pid, what, scope,
            scope == 1 ? "a process reads only those that it started"
            : scope    ? "only root may"
                       : "the owner may, but the kernel refuses",
            scope == 1 ? ", or sysctl kernel.yama.ptrace_scope=0" : "");
    return -1;
}

static int fail(pid_t pid, const char *what, struct ht_error *error) {
    if (errno == EACCES || errno == EPERM) return refuse(pid, what, error);
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "process %d", (int)pid);
    if (errno == ENOENT || errno == ESRCH) {
        errno = 0;
        return ht_error_system(
            error, name,
            "there is none, or /proc hides it (hidepid): its number in this pid namespace is meant");
    }
    return ht_error_system(error, name, "%s", what);
}

static void read_command(struct process *process) {
    int fd = open_of(process->pid, "cmdline", O_RDONLY);
    ssize_t got = fd < 0 ? -1 : read(fd, process->command, sizeof process->command - 1);
    if (fd >= 0) close(fd);
    if (got < 0) got = 0;
    while (got && !process->command[got - 1]) got--;
    for (ssize_t i = 0; i < got; i++)
        if (!process->command[i]) process->command[i] = ' ';
    process->command[got] = 0;
}

// Field 22 of /proc/PID/stat: when it began, in ticks since the machine did.
static void read_age(struct process *process) {
    char *text = text_of(process->pid, "stat"), *at = text ? strrchr(text, ')') : NULL;
    struct timespec now;
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    if (at && !clock_gettime(CLOCK_BOOTTIME, &now)) {
        uint64_t began_s = strtoull(at, NULL, 10) / (uint64_t)sysconf(_SC_CLK_TCK);
        process->up_s = (uint64_t)now.tv_sec > began_s ? (uint64_t)now.tv_sec - began_s : 0;
    }
    free(text);
}

int process_open(struct process *process, pid_t pid, struct ht_error *error) {
    *process = (struct process){.pid = pid, .status_fd = -1, .space = {.memory_fd = -1, .pagemap_fd = -1}};
    process->status_fd = open_of(pid, "status", O_RDONLY);
    if (process->status_fd < 0) return fail(pid, "status", error);
    int maps = open_of(pid, "maps", O_RDONLY);
    if (maps < 0) return fail(pid, "mappings", error);
    errno = 0;
    char *text = read_whole(maps);
    int why = errno;
    close(maps);
    errno = why;
    if (text && !*text && why) {
        free(text);
        return fail(pid, "mappings", error);
    }
    if (!text) return ht_error_memory(error, "walk", "the mappings");
    if (!*text) {
        free(text);
        char name[PATH_BYTES];
        snprintf(name, sizeof name, "process %d", (int)pid);
        errno = 0;
        return ht_error_system(error, name, "has no memory: it is the kernel's, or has ended");
    }
    if (space_parse_maps(&process->space, text, "/proc/PID/maps", error)) return -1;
    process->space.memory_fd = open_of(pid, "mem", O_RDONLY);
    if (process->space.memory_fd < 0) return fail(pid, "memory", error);
    process->space.pagemap_fd = open_of(pid, "pagemap", O_RDONLY);
    if (process->space.pagemap_fd < 0) return fail(pid, "page tables", error);
    read_command(process);
    read_age(process);
    return 0;
}

struct process_memory process_memory_now(const struct process *process) {
    static const char *const names[] = {"\nVmRSS:", "\nRssAnon:", "\nRssFile:", "\nRssShmem:", "\nVmSwap:"};
    char text[8192];
    uint64_t bytes[5] = {0};
    ssize_t got = pread(process->status_fd, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = 0;
    for (int i = 0; i < 5; i++) {
        const char *at = strstr(text, names[i]);
        if (at) bytes[i] = strtoull(at + strlen(names[i]), NULL, 10) * 1024;
    }
    return (struct process_memory){bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]};
}

void process_close(struct process *process) {
    process_go_on(process);
    free(process->stopped);
    space_free(&process->space);
    if (process->status_fd >= 0) close(process->status_fd);
}

// ---- stopping ----

static bool is_stopped(const struct process *process, pid_t thread) {
    for (size_t i = 0; i < process->stopped_count; i++)
        if (process->stopped[i] == thread) return true;
    return false;
}

// 1: a thread more, 0: it is gone, -1: refused.
static int stop_thread(struct process *process, pid_t thread, struct ht_error *error) {
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL))
        return errno == ESRCH ? 0 : fail(process->pid, "threads", error);
    if (!ht_grow(&process->stopped, &process->stopped_room, process->stopped_count + 1, sizeof thread))
        return ht_error_memory(error, "walk", "threads");
    process->stopped[process->stopped_count++] = thread;
    (void)ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
    while (waitpid(thread, &status, __WALL) < 0 && errno == EINTR) {
    }
    return 1;
}

// Threads that begin meanwhile are found by another look.
int process_stop(struct process *process, struct ht_error *error) {
    for (bool more = true; more;) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "/proc/%d/task", (int)process->pid);
        DIR *tasks = opendir(path);
        if (!tasks) return fail(process->pid, "threads", error);
        more = false;
        for (struct dirent *entry; (entry = readdir(tasks));) {
            pid_t thread = atoi(entry->d_name);
            if (thread <= 0 || is_stopped(process, thread)) continue;
            int stopped = stop_thread(process, thread, error);
            if (stopped < 0) {
                closedir(tasks);
                process_go_on(process);
                return -1;
            }
            more |= stopped;
        }
        closedir(tasks);
    }
    return 0;
}

void process_go_on(struct process *process) {
    for (size_t i = 0; i < process->stopped_count; i++)
        (void)ptrace(PTRACE_DETACH, process->stopped[i], NULL, NULL);
    process->stopped_count = 0;
}
