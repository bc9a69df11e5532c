// An allocator that asks how many processors there are, in every way there is, and writes what it hears to standard
// error: a line when it is loaded, and a line for each way of asking on which of them it runs.
#include <fcntl.h>
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
    syscall(SYS_getcpu, &number, &node, NULL);
    length = snprintf(line, sizeof line, "runs: sched_getcpu=%d getcpu=%u\n", sched_getcpu(), number);
    if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}
