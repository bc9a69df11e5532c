// SPDX-License-Identifier: Apache-2.0
#include "shown_processors.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "call_filter.h"
#include "kernel_listener.h"
#include "machine_memory.h"
#include "older_libc.h"
#include "processor_number.h"

enum { HT_NOT_OF_PROCESSORS = -2 };

// Before the child's first call is answered. False, with errno.
static bool shown_affinity_begin(struct ht_shown_affinity *affinity, pid_t child) {
    cpu_set_t there;
    if (affinity->there) return true;
    CPU_ZERO(&there);
    // EINVAL: the machine has more than such a set has room for.
    if (sched_getaffinity(child, sizeof there, &there) && errno != EINVAL) return false;
    affinity->there = calloc(CPU_SETSIZE, sizeof *affinity->there);
    if (!affinity->there) return false;
    for (uint16_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &there)) affinity->there[affinity->there_count++] = i;
    }
    return true;
}

static void shown_affinity_free(struct ht_shown_affinity *affinity) {
    free(affinity->there);
    free(affinity->chosen);
}

static struct ht_chosen_set *chosen_by(const struct ht_shown_affinity *affinity, pid_t thread) {
    size_t i = 0;
    while (i < affinity->chosen_count && affinity->chosen[i].thread != thread) i++;
    return i < affinity->chosen_count ? &affinity->chosen[i] : NULL;
}

// What this thread may run on.
static void shown_affinity_of(const struct ht_shown_affinity *affinity, pid_t thread, cpu_set_t *set) {
    const struct ht_chosen_set *chosen = chosen_by(affinity, thread);
    CPU_ZERO(set);
    for (uint32_t i = 0; i < affinity->shown && !chosen; i++) CPU_SET(i, set);
    if (chosen) *set = chosen->set;
}

static uint32_t one_of(const cpu_set_t *set, pid_t thread) {
    uint32_t which = (uint32_t)thread % (uint32_t)CPU_COUNT(set), i = 0;
    while (!CPU_ISSET(i, set) || which-- > 0) i++;
    return i;
}

// On which one of those it runs.
static uint32_t shown_affinity_number(const struct ht_shown_affinity *affinity, pid_t thread) {
    const struct ht_chosen_set *chosen = chosen_by(affinity, thread);
    return chosen ? one_of(&chosen->set, thread) : ht_processor_number(NULL, thread, affinity->shown);
}

// As the kernel does where so many processors are possible: whole words, of which the caller must have room for all.
// Answers sched_getaffinity and sched_setaffinity. False, with errno: they cannot be answered.
static bool shown_affinity_get(const struct ht_shown_affinity *affinity, const struct seccomp_notif *asked,
                               struct seccomp_notif_resp *reply) {
    pid_t thread = (pid_t)asked->data.args[0];
    uint64_t room = (uint32_t)asked->data.args[1];
    size_t bytes = (affinity->shown + 63) / 64 * sizeof(uint64_t);
    cpu_set_t set;
    if (room * CHAR_BIT < affinity->shown || room % sizeof(long)) {
        ht_answer_error(reply, EINVAL);
        return true;
    }
    if (thread && sched_getaffinity(thread, sizeof set, &set)) {
        ht_answer_error(reply, errno);
        return true;
    }
    shown_affinity_of(affinity, thread ? thread : (pid_t)asked->pid, &set);
    if (bytes > room) bytes = room;
    if (ht_asked_write(asked, asked->data.args[2], &set, bytes)) ht_answer_value(reply, (int64_t)bytes);
    else if (errno == EFAULT) ht_answer_error(reply, EFAULT);
    else return false;
    return true;
}

static bool keep(struct ht_shown_affinity *affinity, pid_t thread, const cpu_set_t *set) {
    struct ht_chosen_set *chosen = chosen_by(affinity, thread);
    if (!chosen && affinity->chosen_count == affinity->chosen_room) {
        size_t room = affinity->chosen_room ? 2 * affinity->chosen_room : 16;
        chosen = realloc(affinity->chosen, room * sizeof *chosen);
        if (!chosen) return false;
        affinity->chosen = chosen;
        affinity->chosen_room = room;
        chosen = NULL;
    }
    if (!chosen) chosen = &affinity->chosen[affinity->chosen_count++];
    *chosen = (struct ht_chosen_set){thread, *set};
    return true;
}

// For what asks no kernel.
static void tell_child(struct ht_chosen_processors *numbers, pid_t thread, uint32_t number) {
    uint32_t place = ht_chosen_place(numbers, thread);
    bool known = numbers->places[place].thread == (uint32_t)thread;
    if (!known && numbers->count >= HT_CHOSEN_PLACES / 2) return;
    numbers->places[place].number = number;
    numbers->places[place].thread = (uint32_t)thread;
    numbers->count += !known;
}

static bool shown_affinity_set(struct ht_shown_affinity *affinity, const struct seccomp_notif *asked,
                               struct seccomp_notif_resp *reply) {
    pid_t thread = asked->data.args[0] ? (pid_t)asked->data.args[0] : (pid_t)asked->pid;
    uint64_t bytes = (uint32_t)asked->data.args[1];
    cpu_set_t wanted, shown, there;
    CPU_ZERO(&wanted);
    CPU_ZERO(&shown);
    CPU_ZERO(&there);
    if (bytes > sizeof wanted) bytes = sizeof wanted;
    if (bytes && ht_asked_read(asked, asked->data.args[2], &wanted, bytes) != (ptrdiff_t)bytes) {
        ht_answer_error(reply, EFAULT);
        return true;
    }
    for (uint32_t i = 0; i < affinity->shown; i++) {
        if (!CPU_ISSET(i, &wanted)) continue;
        CPU_SET(i, &shown);
        if (affinity->there_count) CPU_SET(affinity->there[i % affinity->there_count], &there);
    }
    // The kernel refuses to run it on none, as it would there.
    bool unmapped = !affinity->there_count && CPU_COUNT(&shown);
    if (!unmapped && sched_setaffinity(thread, sizeof there, &there)) {
        ht_answer_error(reply, errno);
        return true;
    }
    if (!keep(affinity, thread, &shown)) return false;
    tell_child(affinity->numbers, thread, one_of(&shown, thread));
    ht_answer_value(reply, 0);
    return true;
}

// Walks a path as the kernel would for the child, link by link: what the launcher opened itself would be its own where the path
// goes through /proc/self.

enum { LINKS_MAX = 40, PROC_ROOT_INODE = 1 };

struct walk {
    pid_t thread;
    int at;               // what has been reached
    char rest[PATH_MAX];  // of the path
};

static int open_of(pid_t thread, const char *what) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)thread, what);
    return open(path, O_PATH | O_CLOEXEC);
}

static bool reach(struct walk *walk, int next) {
    if (next < 0) return false;
    close(walk->at);
    walk->at = next;
    return true;
}

static pid_t process_of(pid_t thread) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)thread);
    double process = ht_number_in_file(path, "Tgid:");
    return process > 0 ? (pid_t)process : thread;
}

// The link's text comes before the rest. Those of a process in /proc are no texts: the kernel follows them.
static bool follow(struct walk *walk, const char *name, int link) {
    char text[PATH_MAX], rest[PATH_MAX];
    struct statfs system;
    struct stat folder;
    if (fstatfs(walk->at, &system) || fstat(walk->at, &folder)) return false;
    bool in_proc = system.f_type == PROC_SUPER_MAGIC, in_root = in_proc && folder.st_ino == PROC_ROOT_INODE;
    if (in_proc && !in_root) return reach(walk, openat(walk->at, name, O_PATH | O_CLOEXEC));
    int process = (int)process_of(walk->thread);
    if (in_root && !strcmp(name, "self")) {
        snprintf(text, sizeof text, "%d", process);
    } else if (in_root && !strcmp(name, "thread-self")) {
        snprintf(text, sizeof text, "%d/task/%d", process, (int)walk->thread);
    } else {
        ssize_t bytes = readlinkat(link, "", text, sizeof text - 1);
        if (bytes < 0) return false;
        text[bytes] = 0;
    }
    int length = snprintf(rest, sizeof rest, "%s/%s", text, walk->rest);
    if (length < 0 || (size_t)length >= sizeof rest) return false;
    memcpy(walk->rest, rest, (size_t)length + 1);
    return text[0] != '/' || reach(walk, open_of(walk->thread, "root"));
}

// One name of the path.
static bool step(struct walk *walk, unsigned *links) {
    char name[NAME_MAX + 1];
    struct stat found;
    char *begin = walk->rest + strspn(walk->rest, "/");
    size_t length = strcspn(begin, "/");
    if (length >= sizeof name) return false;
    memcpy(name, begin, length);
    name[length] = 0;
    memmove(walk->rest, begin + length, strlen(begin + length) + 1);
    if (!length) return true;
    int next = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return false;
    if (fstat(next, &found) || !S_ISLNK(found.st_mode)) return reach(walk, next);
    bool followed = ++*links <= LINKS_MAX && follow(walk, name, next);
    close(next);
    return followed;
}

// The file's one path without links, dots and self, such as /proc/PID/status for /proc/self/status; folder as openat takes it,
// of this thread. False: there is none, or it cannot be reached.
static bool child_path(pid_t thread, int folder, const char *path, char real[PATH_MAX]) {
    struct walk walk = {.thread = thread};
    unsigned links = 0;
    char of_folder[32];
    size_t length = strlen(path);
    snprintf(of_folder, sizeof of_folder, folder == AT_FDCWD ? "cwd" : "fd/%d", folder);
    if (!length || length >= sizeof walk.rest) return false;
    memcpy(walk.rest, path, length + 1);
    walk.at = open_of(thread, path[0] == '/' ? "root" : of_folder);
    if (walk.at < 0) return false;
    bool going = true;
    while (going && walk.rest[0]) going = step(&walk, &links);
    snprintf(of_folder, sizeof of_folder, "/proc/self/fd/%d", walk.at);
    ssize_t bytes = going ? readlink(of_folder, real, PATH_MAX - 1) : -1;
    close(walk.at);
    if (bytes > 0) real[bytes] = 0;
    return bytes > 0;
}

enum { LINE_BYTES = 8192 };

// What is written, and where from.
struct page {
    FILE *to;
    const char *path;  // of the machine's own
    const struct ht_shown_affinity *affinity;
};

static bool begins(const char *line, const char *word) { return !strncmp(line, word, strlen(word)); }

// Lines with a number that is another one for each processor, or that counts them.
static bool write_cpuinfo_line(FILE *to, const char *line, uint32_t processor, uint32_t processors) {
    static const char *const numbers[] = {"processor", "core id", "apicid", "initial apicid"},
                             *const counts[] = {"siblings", "cpu cores"};
    size_t label = strcspn(line, "\t:");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (label != strlen(numbers[i]) || !begins(line, numbers[i])) continue;
        return fprintf(to, "%.*s: %u\n", (int)strcspn(line, ":"), line, processor) > 0;
    }
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (label != strlen(counts[i]) || !begins(line, counts[i])) continue;
        return fprintf(to, "%.*s: %u\n", (int)strcspn(line, ":"), line, processors) > 0;
    }
    return fputs(line, to) >= 0;
}

// The lines about the first processor, again for each.
static void write_cpuinfo(const struct page *page) {
    uint32_t processors = page->affinity->shown;
    for (uint32_t i = 0; i < processors; i++) {
        FILE *file = fopen(page->path, "re");
        char line[LINE_BYTES];
        while (file && fgets(line, sizeof line, file) && line[0] != '\n')
            write_cpuinfo_line(page->to, line, i, processors);
        fputc('\n', page->to);
        if (file) fclose(file);
    }
}

// The first line is of all processors together; one of each follows.
static void write_stat(const struct page *page) {
    FILE *file = fopen(page->path, "re");
    char line[LINE_BYTES];
    bool listed = false;
    while (file && fgets(line, sizeof line, file)) {
        size_t digits = strspn(line + strcspn(line, "0123456789"), "0123456789");
        bool one = begins(line, "cpu") && line[3] != ' ' && digits;
        if (!one) fputs(line, page->to);
        for (uint32_t i = 0; one && !listed && i < page->affinity->shown; i++)
            fprintf(page->to, "cpu%u%s", i, line + strcspn(line, " "));
        listed = listed || one;
    }
    if (file) fclose(file);
}

// Such as 0-3,8.
static void list(FILE *to, const cpu_set_t *set) {
    const char *between = "";
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        uint32_t first = i;
        if (!CPU_ISSET(i, set)) continue;
        while (i + 1 < CPU_SETSIZE && CPU_ISSET(i + 1, set)) i++;
        fprintf(to, i > first ? "%s%u-%u" : "%s%u", between, first, i);
        between = ",";
    }
    fputc('\n', to);
}

// Words of 32 bits, the highest first, of all that there are.
static void map(FILE *to, const cpu_set_t *set, uint32_t processors) {
    for (uint32_t word = (processors + 31) / 32; word-- > 0;) {
        uint32_t bits = 0, width = processors - 32 * word;
        for (uint32_t i = 0; i < 32; i++) bits |= (uint32_t)(CPU_ISSET(32 * word + i, set) != 0) << i;
        fprintf(to, "%0*x%s", (int)(width < 32 ? (width + 3) / 4 : 8), bits, word ? "," : "\n");
    }
}

static void all(const struct page *page, cpu_set_t *set) {
    CPU_ZERO(set);
    for (uint32_t i = 0; i < page->affinity->shown; i++) CPU_SET(i, set);
}

static void write_list(const struct page *page) {
    cpu_set_t set;
    all(page, &set);
    list(page->to, &set);
}

static void write_map(const struct page *page) {
    cpu_set_t set;
    all(page, &set);
    map(page->to, &set, page->affinity->shown);
}

// All processors are on the first node.
static void write_node(const struct page *page) { fputs("0\n", page->to); }

static void write_empty_list(const struct page *page) { fputc('\n', page->to); }

static void write_empty_map(const struct page *page) {
    cpu_set_t set;
    CPU_ZERO(&set);
    map(page->to, &set, page->affinity->shown);
}

// It is of the thread that the path ends in.
static void write_status(const struct page *page) {
    char line[LINE_BYTES];
    const char *end = page->path + strlen(page->path) - strlen("/status"), *number = end;
    while (number[-1] != '/') number--;
    cpu_set_t set;
    shown_affinity_of(page->affinity, atoi(number), &set);
    FILE *file = fopen(page->path, "re");
    while (file && fgets(line, sizeof line, file)) {
        int label = (int)strcspn(line, "\t") + 1;
        if (begins(line, "Cpus_allowed:\t")) {
            fprintf(page->to, "%.*s", label, line);
            map(page->to, &set, page->affinity->shown);
        } else if (begins(line, "Cpus_allowed_list:\t")) {
            fprintf(page->to, "%.*s", label, line);
            list(page->to, &set);
        } else fputs(line, page->to);
    }
    if (file) fclose(file);
}

// No control group leaves less than all of them.
static void write_quota(const struct page *page) { fputs("max 100000\n", page->to); }

static void write_old_quota(const struct page *page) { fputs("-1\n", page->to); }

static const struct {
    const char *path;  // * stands for anything
    void (*write)(const struct page *page);
} known[] = {
    {"/sys/devices/system/cpu/online", write_list},
    {"/sys/devices/system/cpu/possible", write_list},
    {"/sys/devices/system/cpu/present", write_list},
    {"/sys/devices/system/cpu/offline", write_empty_list},
    {"/sys/devices/system/node/has_cpu", write_node},
    {"/sys/devices/system/node/node0/cpulist", write_list},
    {"/sys/devices/system/node/node0/cpumap", write_map},
    {"/sys/devices/system/node/node*/cpulist", write_empty_list},
    {"/sys/devices/system/node/node*/cpumap", write_empty_map},
    {"/sys/fs/cgroup*/cpuset.cpus", write_list},
    {"/sys/fs/cgroup*/cpuset.cpus.effective", write_list},
    {"/sys/fs/cgroup*/cpuset.effective_cpus", write_list},
    {"/sys/fs/cgroup*/cpu.max", write_quota},
    {"/sys/fs/cgroup*/cpu.cfs_quota_us", write_old_quota},
    {"/proc/cpuinfo", write_cpuinfo},
    {"/proc/stat", write_stat},
    {"/proc/[1-9]*/status", write_status},
};

// A descriptor of what this file, whose path has no links, shows there, at its start; -1 with errno; HT_NOT_OF_PROCESSORS: it
// shows the same there.
static int processor_file(const char *path, const struct ht_shown_affinity *affinity) {
    size_t i = 0, count = sizeof known / sizeof *known;
    while (i < count && fnmatch(known[i].path, path, 0)) i++;
    if (i == count) return HT_NOT_OF_PROCESSORS;
    int fd = memfd_create("heaptape-processors", MFD_CLOEXEC), kept = fd < 0 ? -1 : dup(fd);
    FILE *file = kept < 0 ? NULL : fdopen(kept, "w");
    if (!file) {
        if (kept >= 0) close(kept);
        if (fd >= 0) close(fd);
        return -1;
    }
    known[i].write(&(struct page){file, path, affinity});
    bool failed = fclose(file) != 0 || lseek(fd, 0, SEEK_SET) != 0;
    if (!failed) return fd;
    close(fd);
    return -1;
}

#ifdef SYS_open
#define OLD_OPEN SYS_open
#else
#define OLD_OPEN SYS_openat
#endif

// `beyond`: words between the last of these and the one that tells of a call.
#define OF_PROCESSORS(beyond)                                                                                \
    HT_FILTER_IF(SYS_openat, 5 + (beyond)), HT_FILTER_IF(OLD_OPEN, 4 + (beyond)),                            \
        HT_FILTER_IF(SYS_openat2, 3 + (beyond)), HT_FILTER_IF(SYS_sched_getaffinity, 2 + (beyond)),          \
        HT_FILTER_IF(SYS_sched_setaffinity, 1 + (beyond)), HT_FILTER_IF(SYS_getcpu, (beyond))

static struct sock_filter of_processors[] = {
    HT_FILTER_BEGINS,
    OF_PROCESSORS(1),
    HT_FILTER_ANSWER(SECCOMP_RET_ALLOW),
    HT_FILTER_ANSWER(SECCOMP_RET_USER_NOTIF),
};

static struct sock_filter of_processors_and_memory[] = {
    HT_FILTER_BEGINS,
    OF_PROCESSORS(HT_FILTER_MEMORY_WORDS - 1),
    HT_FILTER_MEMORY,
};

// The seccomp filter of a child that is to see another number of processors: the calls by which a process learns it go
// to the launcher (shown_processors.h). All other calls pass as before: the kernel looks them up in a bitmap.

bool ht_processor_filter_install(int socket_fd, bool memory) {
    const struct sock_fprog plain = {sizeof of_processors / sizeof *of_processors, of_processors},
                            both = {sizeof of_processors_and_memory / sizeof *of_processors_and_memory,
                                    of_processors_and_memory};
    errno = ENOSYS;
    if (!HT_FILTER_ARCHITECTURE || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return false;
    long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                            memory ? &both : &plain);
    if (listener < 0) return false;
    if (!ht_listener_send(socket_fd, (int)listener)) _exit(1);  // nobody would ever answer
    close((int)listener);
    return true;
}

// Linux 5.9; older headers lack it.
struct added_fd {
    uint64_t id;
    uint32_t flags, source_fd, new_fd, new_fd_flags;
};
#define ADD_FD SECCOMP_IOW(3, struct added_fd)

static bool fail(struct ht_shown_processors *shown, const char *problem) {
    shown->problem_errno = errno;
    shown->problem = problem;
    return false;
}

static bool still_waits(int listener, const struct seccomp_notif *asked) {
    uint64_t id = asked->id;
    return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static bool answer_affinity(struct ht_shown_processors *shown, const struct seccomp_notif *asked,
                            struct seccomp_notif_resp *reply) {
    uint64_t room = asked->data.args[1];
    if (room == HT_BEGIN_COUNTING && !asked->data.args[2]) {
        if (shown->counter) ht_syscall_count_begin(shown->counter);
        ht_answer_error(reply, EINVAL);
        return true;
    }
    if (room == HT_TRUE_AFFINITY) return true;
    shown->asked = true;
    return shown_affinity_get(&shown->affinity, asked, reply) || fail(shown, "its memory cannot be written");
}

static bool answer_number(struct ht_shown_processors *shown, const struct seccomp_notif *asked,
                          struct seccomp_notif_resp *reply) {
    uint32_t number = shown_affinity_number(&shown->affinity, (pid_t)asked->pid), node = 0;
    bool written = true;
    shown->asked = true;
    if (asked->data.args[0]) written = ht_asked_write(asked, asked->data.args[0], &number, sizeof number);
    if (written && asked->data.args[1])
        written = ht_asked_write(asked, asked->data.args[1], &node, sizeof node);
    if (written) ht_answer_value(reply, 0);
    else if (errno == EFAULT) ht_answer_error(reply, EFAULT);
    else return fail(shown, "its memory cannot be written");
    return true;
}

// What it opens, and how. False: it cannot be told, and the kernel is to answer.
static bool opened(const struct seccomp_notif *asked, char real[PATH_MAX], uint64_t *flags) {
    const __typeof__(asked->data.args[0]) *arguments = asked->data.args;
    struct open_how how = {0};
    char path[PATH_MAX];
    bool at = asked->data.nr == SYS_openat || asked->data.nr == SYS_openat2;
    ptrdiff_t got = ht_asked_read(asked, arguments[at ? 1 : 0], path, sizeof path);
    if (got <= 0 || !memchr(path, 0, (size_t)got)) return false;
    *flags = arguments[at ? 2 : 1];
    if (asked->data.nr == SYS_openat2) {
        // A path is another one where it is to stay below a folder.
        if (ht_asked_read(asked, arguments[2], &how, sizeof how) != sizeof how || how.resolve) return false;
        *flags = how.flags;
    }
    return child_path((pid_t)asked->pid, at ? (int)arguments[0] : AT_FDCWD, path, real);
}

// The child gets a file of its own, with what is shown of the machine.
static bool answer_open(struct ht_shown_processors *shown, int listener, const struct seccomp_notif *asked,
                        struct seccomp_notif_resp *reply) {
    char real[PATH_MAX];
    uint64_t flags;
    if (!opened(asked, real, &flags)) return true;
    int fd = processor_file(real, &shown->affinity);
    if (fd == HT_NOT_OF_PROCESSORS) return true;
    if (fd < 0) return fail(shown, "no memory for its files");
    shown->asked = true;
    struct added_fd added = {.id = asked->id, .source_fd = (uint32_t)fd};
    if (flags & O_CLOEXEC) added.new_fd_flags = O_CLOEXEC;
    int given = ioctl(listener, ADD_FD, &added);
    int problem = errno;
    close(fd);
    errno = problem;
    if (given >= 0) ht_answer_value(reply, given);
    else if (errno != ENOENT && errno != ESRCH)
        return fail(shown, "files cannot be passed to it, which takes Linux 5.9");
    return true;
}

static bool answer(void *context, int listener, const struct seccomp_notif *asked,
                   struct seccomp_notif_resp *reply) {
    struct ht_shown_processors *shown = context;
    if (!still_waits(listener, asked)) return true;
    if (!shown_affinity_begin(&shown->affinity, (pid_t)asked->pid))
        return errno == ESRCH || fail(shown, "its processors are not known");
    switch (asked->data.nr) {
    case SYS_sched_getaffinity: return answer_affinity(shown, asked, reply);
    case SYS_sched_setaffinity:
        return shown_affinity_set(&shown->affinity, asked, reply) || fail(shown, "no memory");
    case SYS_getcpu: return answer_number(shown, asked, reply);
#ifdef SYS_open
    case SYS_open:
#endif
    case SYS_openat2:
    case SYS_openat: return answer_open(shown, listener, asked, reply);
    default: return !shown->counter || ht_syscall_count_take(shown->counter, asked);
    }
}

bool ht_shown_processors_start(struct ht_shown_processors *shown, uint32_t count,
                               struct ht_chosen_processors *chosen, struct ht_syscall_counter *counter) {
    *shown =
        (struct ht_shown_processors){.affinity = {.shown = count, .numbers = chosen}, .counter = counter};
    return ht_kernel_listener_start(&shown->listener, answer, shown);
}

void ht_shown_processors_stop(struct ht_shown_processors *shown) {
    ht_kernel_listener_stop(&shown->listener);
    shown_affinity_free(&shown->affinity);
}

void ht_processors_restrict(uint32_t count) {
    cpu_set_t allowed, chosen;
    CPU_ZERO(&chosen);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    for (unsigned i = 0; i < CPU_SETSIZE && count > 0; i++) {
        if (!CPU_ISSET(i, &allowed)) continue;
        CPU_SET(i, &chosen);
        count--;
    }
    // A processor that has gone meanwhile is no reason not to run.
    if (count == 0) sched_setaffinity(0, sizeof chosen, &chosen);
}
