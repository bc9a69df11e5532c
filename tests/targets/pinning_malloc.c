// SPDX-License-Identifier: Apache-2.0
// An allocator that has its first thread run on the last processor that it is shown, and writes to standard error what
// comes of it: a line when it is loaded, and one when it has been called a hundred times.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

static _Atomic int calls;

static void say_where(void) {
    unsigned number = 0;
    char line[128];
    syscall(SYS_getcpu, &number, NULL, NULL);
    int length = snprintf(line, sizeof line, "runs: getcpu=%u sched_getcpu=%d of=%d\n", number,
                          sched_getcpu(), get_nprocs());
    if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}

void *malloc(size_t size) {
    if (++calls == 100) say_where();
    return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) { return __libc_calloc(count, size); }
void *realloc(void *block, size_t size) { return __libc_realloc(block, size); }
void free(void *block) { __libc_free(block); }
int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : 12;
}

// Beyond a set's end: none.
static int choose(pid_t thread, unsigned processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    return sched_setaffinity(thread, sizeof set, &set) ? errno : 0;
}

static void *count_in_other_thread(void *result) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    *(int *)result = CPU_COUNT(&set);
    return NULL;
}

__attribute__((constructor)) static void pin(void) {
    cpu_set_t set;
    pthread_t other;
    char line[256], status[16384], *list;
    unsigned last = (unsigned)get_nprocs() - 1;
    int of_other = 0;
    if (!pthread_create(&other, NULL, count_in_other_thread, &of_other)) pthread_join(other, NULL);
    int none = choose(0, CPU_SETSIZE), beyond = choose(0, last + 1), nobody = choose(0x7ffffff0, 0),
        null = syscall(SYS_sched_setaffinity, 0, 128, NULL) ? errno : 0;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    int pinned = pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    memset(&set, 0, sizeof set);
    sched_getaffinity(getpid(), sizeof set, &set);
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, status, sizeof status - 1);
    close(fd);
    status[got > 0 ? got : 0] = 0;
    list = strstr(status, "Cpus_allowed_list:\t");
    list = list ? list + strlen("Cpus_allowed_list:\t") : status;
    list[strcspn(list, "\n")] = 0;
    int length = snprintf(
        line, sizeof line, "pinned: %d of=%d last=%d list=%s none=%d beyond=%d nobody=%d null=%d other=%d\n",
        pinned, CPU_COUNT(&set), CPU_ISSET(last, &set) != 0, list, none, beyond, nobody, null, of_other);
    if (write(STDERR_FILENO, line, (size_t)length) < 0) return;
}
