// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "grow.h"
#include "kernel_text.h"
#include "now.h"

enum {
    PATH_BYTES = 64,
    STATUS_BYTES = 8192,
    TEXT_BYTES_MAX = 64 << 20,
    STOP_S_MAX = 5,
    // Fields of /proc/PID/stat, as proc(5) counts.
    FIELD_BEGAN = 22,
    FIELD_WORDS_START = 48,
    FIELD_WORDS_END = 49,
};

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

static int open_of(const struct process *process, const char *name) {
    return openat(process->folder_fd, name, O_RDONLY | O_CLOEXEC);
}

static char *text_of(const struct process *process, const char *name) {
    int fd = open_of(process, name);
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
    if (scope >= 3)
        snprintf(
            error->message, sizeof error->message,
            "process %d: its %s may not be read: kernel.yama.ptrace_scope is %d, under which nobody may read another's, not even "
            "root, until the machine restarts",
            (int)pid, what, scope);
    else if (!geteuid())
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
        if (kill(pid, 0) == 0 || errno == EPERM) {
            errno = 0;
            return ht_error_system(
                error, name, "it is a zombie, or its main thread has ended: its %s cannot be read", what);
        }
        errno = 0;
        return ht_error_system(
            error, name,
            "there is none, or /proc hides it (hidepid): its number in this pid namespace is meant");
    }
    return ht_error_system(error, name, "%s", what);
}

// A word of /proc/PID/stat behind the name, which is field 2 and may hold anything.
static uint64_t stat_field(const char *text, int field) {
    const char *at = text ? strrchr(text, ')') : NULL;
    for (int i = 2; at && i < field; i++) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    return at ? strtoull(at, NULL, 10) : 0;
}

// Not from /proc/PID/cmdline: the kernel reads that from the process's memory, and fetches what is not in RAM.
static void read_command(struct process *process, const char *stat) {
    uint64_t start = stat_field(stat, FIELD_WORDS_START), end = stat_field(stat, FIELD_WORDS_END),
             most = end - start;
    if (end < start) return;
    if (most > sizeof process->command - 1) most = sizeof process->command - 1;
    size_t got = space_read(&process->space, start, process->command, most);
    while (got && !process->command[got - 1]) got--;
    for (size_t i = 0; i < got; i++)
        if (!process->command[i]) process->command[i] = ' ';
    process->command[got] = 0;
}

// When it began, in ticks since the machine did.
static void read_age(struct process *process, const char *stat) {
    struct timespec now;
    uint64_t began_s = stat_field(stat, FIELD_BEGAN) / (uint64_t)sysconf(_SC_CLK_TCK);
    if (stat && !clock_gettime(CLOCK_BOOTTIME, &now))
        process->up_s = (uint64_t)now.tv_sec > began_s ? (uint64_t)now.tv_sec - began_s : 0;
}

static int read_mappings(struct process *process, struct ht_error *error) {
    char name[PATH_BYTES];
    int maps = open_of(process, "maps");
    if (maps < 0) return fail(process->pid, "mappings", error);
    errno = 0;
    char *text = read_whole(maps);
    int why = errno;
    close(maps);
    errno = why;
    if (!text) return ht_error_memory(error, "walk", "the mappings");
    snprintf(name, sizeof name, "/proc/%d/maps", (int)process->pid);
    if (*text) return space_parse_maps(&process->space, text, name, error);
    free(text);
    if (why) return fail(process->pid, "mappings", error);
    return ht_error_system(error, name, "it has no memory: it is the kernel's, or has ended");
}

int process_open(struct process *process, pid_t pid, struct ht_error *error) {
    char path[PATH_BYTES];
    *process = (struct process){
        .pid = pid, .folder_fd = -1, .status_fd = -1, .space = {.memory_fd = -1, .pagemap_fd = -1}};
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    process->folder_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process->folder_fd < 0) return fail(pid, "status", error);
    process->status_fd = open_of(process, "status");
    if (process->status_fd < 0) return fail(pid, "status", error);
    process->space.memory_fd = open_of(process, "mem");
    if (process->space.memory_fd < 0) return fail(pid, "memory", error);
    process->space.pagemap_fd = open_of(process, "pagemap");
    if (process->space.pagemap_fd < 0) return fail(pid, "page tables", error);
    if (read_mappings(process, error)) return -1;
    char *mounts = text_of(process, "mountinfo"), *stat = text_of(process, "stat");
    snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
    int failed = space_add_files(&process->space, path, mounts, error);
    read_command(process, stat);
    read_age(process, stat);
    free(mounts);
    free(stat);
    return failed;
}

// A number of /proc/PID/status.
static uint64_t status_number(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void read_status(const struct process *process, char text[STATUS_BYTES]) {
    ssize_t got = pread(process->status_fd, text, STATUS_BYTES - 1, 0);
    text[got > 0 ? got : 0] = 0;
}

struct process_memory process_memory_now(const struct process *process) {
    static const char *const names[] = {"\nVmRSS:", "\nRssAnon:", "\nRssFile:", "\nRssShmem:", "\nVmSwap:"};
    char text[STATUS_BYTES];
    uint64_t bytes[5];
    read_status(process, text);
    for (int i = 0; i < 5; i++) bytes[i] = status_number(text, names[i]) * 1024;
    return (struct process_memory){bytes[0], bytes[1], bytes[2], bytes[3], bytes[4]};
}

// The kernel gives no page tables of memory that is gone; a process that ended has no status.
bool process_is_there(const struct process *process) {
    uint64_t entry;
    char byte;
    return pread(process->space.pagemap_fd, &entry, sizeof entry, 0) == sizeof entry &&
           pread(process->status_fd, &byte, 1, 0) == 1;
}

void process_close(struct process *process) {
    process_go_on(process);
    free(process->stopped);
    space_free(&process->space);
    if (process->status_fd >= 0) close(process->status_fd);
    if (process->folder_fd >= 0) close(process->folder_fd);
}

// ---- stopping ----

static bool is_stopped(const struct process *process, pid_t thread) {
    for (size_t i = 0; i < process->stopped_count; i++)
        if (process->stopped[i].thread == thread) return true;
    return false;
}

static int not_stopped(const struct process *process, pid_t thread, const char *why, struct ht_error *error) {
    char name[PATH_BYTES];
    snprintf(name, sizeof name, "process %d", (int)process->pid);
    errno = 0;
    return ht_error_system(error, name, "its thread %d cannot be stopped: %s", (int)thread, why);
}

// 0: it has ended, though its number is still there. -1 with error.
static int refused_thread(const struct process *process, pid_t thread, struct ht_error *error) {
    int why = errno;
    char name[PATH_BYTES], text[STATUS_BYTES];
    snprintf(name, sizeof name, "task/%d/stat", (int)thread);
    char *stat = text_of(process, name);
    bool ended = !stat || strchr("ZX", ht_kernel_state(stat));  // 0 too: there is no state any more
    free(stat);
    if (why == ESRCH || ended) return 0;
    read_status(process, text);
    if (status_number(text, "\nTracerPid:"))
        return not_stopped(process, thread, "a debugger or tracer (TracerPid in /proc/PID/status) has it",
                           error);
    errno = why;
    return fail(process->pid, "threads", error);
}

// A signal that comes first is given back when the thread goes on.
static int await(struct process_thread *thread, double until_s) {
    int status;
    for (;;) {
        pid_t got = waitpid(thread->thread, &status, __WALL | WNOHANG);
        if (got < 0 && errno != EINTR) return 0;
        if (got > 0) break;
        if (ht_now_s() > until_s) return -1;
        usleep(200);
    }
    if (!WIFSTOPPED(status)) return 0;
    thread->signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    return 1;
}

// 1: a thread more, 0: it is gone, -1 with error.
static int stop_thread(struct process *process, pid_t thread, double until_s, struct ht_error *error) {
    if (!ht_grow(&process->stopped, &process->stopped_room, process->stopped_count + 1,
                 sizeof *process->stopped))
        return ht_error_memory(error, "walk", "threads");
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL)) return refused_thread(process, thread, error);
    struct process_thread *seized = &process->stopped[process->stopped_count++];
    *seized = (struct process_thread){.thread = thread};
    (void)ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
    int stopped = await(seized, until_s);
    if (!stopped) process->stopped_count--;
    if (stopped < 0)
        return not_stopped(process, thread,
                           "it waits in the kernel for what cannot be interrupted, or others begin faster",
                           error);
    return stopped;
}

// Threads that begin meanwhile are found by another look.
int process_stop(struct process *process, struct ht_error *error) {
    const double until_s = ht_now_s() + STOP_S_MAX;
    for (bool more = true; more;) {
        int folder = openat(process->folder_fd, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *tasks = folder < 0 ? NULL : fdopendir(folder);
        if (!tasks) return fail(process->pid, "threads", error);
        more = false;
        for (struct dirent *entry; (entry = readdir(tasks));) {
            pid_t thread = atoi(entry->d_name);
            if (thread <= 0 || is_stopped(process, thread)) continue;
            int stopped = stop_thread(process, thread, until_s, error);
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
        (void)ptrace(PTRACE_DETACH, process->stopped[i].thread, NULL,
                     (void *)(intptr_t)process->stopped[i].signal);
    process->stopped_count = 0;
}
