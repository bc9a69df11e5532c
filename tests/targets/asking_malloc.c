// SPDX-License-Identifier: Apache-2.0
// An allocator that asks how many processors there are, in every way there is, and writes what it hears to standard
// error: a line when it is loaded, one for each file that says so or path to it, and one for each way of asking on which of
// them it runs.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

void *malloc(size_t size) { return __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : 12;
}

// Lines of a file that begin so, and go on with a digit if they shall.
static int lines(const char *path, const char *begin, bool digit) {
    static char text[1 << 22];
    int fd = open(path, O_RDONLY | O_CLOEXEC), found = 0;
    ssize_t got, all = 0;
    while (fd >= 0 && (got = read(fd, text + all, sizeof text - 1 - (size_t)all)) > 0) all += got;
    if (fd >= 0) close(fd);
    text[all] = 0;
    for (const char *at = text; at; at = (at = strchr(at, '\n')) ? at + 1 : NULL) {
        size_t length = strlen(begin);
        found += !strncmp(at, begin, length) && (!digit || (at[length] >= '0' && at[length] <= '9'));
    }
    return found;
}

static void read_text(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, room - 1);
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

// What follows the word at a line's begin; the word may be empty.
static void say_opened(const char *name, int fd, const char *word) {
    char text[16384], line[512];
    ssize_t got = 0, all = 0;
    while (fd >= 0 && (got = read(fd, text + all, sizeof text - 1 - (size_t)all)) > 0) all += got;
    if (fd >= 0) close(fd);
    text[all] = 0;
    const char *at = text;
    while (at && strncmp(at, word, strlen(word))) at = (at = strchr(at, '\n')) ? at + 1 : NULL;
    at = at ? at + strlen(word) : "";
    int length = snprintf(line, sizeof line, "file: %s=%.*s\n", name, (int)strcspn(at, "\n"), at);
    if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}

static void ask_files(void) {
    static const char online[] = "/sys/devices/system/cpu/online";
    struct open_how how = {.flags = O_RDONLY};
    char of_process[64];
    int folder = open("/sys/devices/system/cpu", O_PATH | O_DIRECTORY), proc = open("/proc", O_RDONLY);
    snprintf(of_process, sizeof of_process, "/proc/%d/status", (int)getpid());
    say_opened("relative", openat(folder, "online", O_RDONLY), "");
    say_opened("absolute", openat(-1, online, O_RDONLY), "");
    say_opened("openat2", (int)syscall(SYS_openat2, folder, "online", &how, sizeof how), "");
    say_opened("dots", open("/proc/../sys//devices/./system/cpu/online", O_RDONLY), "");
    say_opened("root", open("/proc/self/root/sys/devices/system/cpu/online", O_RDONLY), "");
    say_opened("offline", open("/sys/devices/system/cpu/offline", O_RDONLY), "");
    say_opened("cpulist", open("/sys/devices/system/node/node0/cpulist", O_RDONLY), "");
    say_opened("cpumap", open("/sys/devices/system/node/node0/cpumap", O_RDONLY), "");
    say_opened("has_cpu", open("/sys/devices/system/node/has_cpu", O_RDONLY), "");
    say_opened("self", open("/proc/self/status", O_RDONLY), "Cpus_allowed:\t");
    say_opened("self_list", open("/proc/self/status", O_RDONLY), "Cpus_allowed_list:\t");
    say_opened("thread", open("/proc/thread-self/status", O_RDONLY), "Cpus_allowed_list:\t");
    say_opened("process", open(of_process, O_RDONLY), "Cpus_allowed_list:\t");
    say_opened("below_proc", openat(proc, "./self/status", O_RDONLY), "Cpus_allowed_list:\t");
    say_opened("pid", openat(proc, "../proc/self/status", O_RDONLY), "Pid:\t");
    close(folder);
    close(proc);
}

__attribute__((constructor)) static void ask(void) {
    cpu_set_t set;
    unsigned number = 0, node = 0;
    char online[64], line[512];
    CPU_ZERO(&set);
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof set, &set);
    int too_small = syscall(SYS_sched_getaffinity, 0, 0, &set) < 0;
    read_text("/sys/devices/system/cpu/online", online, sizeof online);
    int length =
        snprintf(line, sizeof line,
                 "asked: onln=%ld conf=%ld nprocs=%d nprocs_conf=%d affinity=%d bytes=%ld refused=%d "
                 "online=%s cpuinfo=%d stat=%d\n",
                 sysconf(_SC_NPROCESSORS_ONLN), sysconf(_SC_NPROCESSORS_CONF), get_nprocs(),
                 get_nprocs_conf(), CPU_COUNT(&set), bytes, too_small, online,
                 lines("/proc/cpuinfo", "processor", false), lines("/proc/stat", "cpu", true));
    if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
    ask_files();
    syscall(SYS_getcpu, &number, &node, NULL);
    length = snprintf(line, sizeof line, "runs: sched_getcpu=%d getcpu=%u pid=%d\n", sched_getcpu(), number,
                      (int)getpid());
    if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}
