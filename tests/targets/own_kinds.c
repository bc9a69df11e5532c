// SPDX-License-Identifier: Apache-2.0
// Memory that a program has beside its heap, got in one of the ways that there are, and touched while 8 MiB
// of heap are live. Usage: own_kinds KIND [PLUGIN | COMMAND...]
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/ioctl.h>

#include "seccomp_filters.h"

enum { HEAP_BYTES = 8 << 20, OWN_BYTES = 24 << 20, THREADS = 12, STACK_BYTES = 2 << 20 };
#define RESERVED_BYTES ((size_t)64 << 30)

static void fill_heap(void) {
    for (size_t got = 0; got < HEAP_BYTES; got += 1024) {
        char *volatile block = malloc(1024);
        memset(block, 2, 1024);
    }
}

static char *map(size_t bytes, int protection, int flags) {
    char *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (at == MAP_FAILED) target_fail("cannot map");
    return at;
}

// As V8 does it: address space first, access to parts of it later.
static void reserved(char *unused) {
    (void)unused;
    char *at = map(RESERVED_BYTES, PROT_NONE, MAP_NORESERVE) + RESERVED_BYTES / 2;
    if (mprotect(at, OWN_BYTES, PROT_READ | PROT_WRITE)) target_fail("cannot open it");
    memset(at, 1, OWN_BYTES);
}

// As the JVM does it.
static void mapped_over(char *unused) {
    (void)unused;
    char *at = map(RESERVED_BYTES, PROT_NONE, MAP_NORESERVE) + RESERVED_BYTES / 2;
    if (mmap(at, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at)
        target_fail("cannot map over it");
    memset(at, 1, OWN_BYTES);
}

// More than could be checked page by page.
static void scattered(char *unused) {
    (void)unused;
    char *at = map(RESERVED_BYTES, PROT_READ | PROT_WRITE, MAP_NORESERVE);
    for (size_t i = 0; i < 64; i++) memset(at + i * (RESERVED_BYTES / 64), 1, OWN_BYTES / 64);
}

// A page that was only read is none of RssAnon's.
static void only_read(char *unused) {
    (void)unused;
    volatile char *at = map(OWN_BYTES, PROT_READ | PROT_WRITE, 0);
    for (size_t i = 0; i < OWN_BYTES; i += 4096) (void)at[i];
}

static void moved(char *unused) {
    (void)unused;
    char *at = map(OWN_BYTES / 2, PROT_READ | PROT_WRITE, 0);
    map(4096, PROT_NONE, 0);  // so that it cannot grow in place, perhaps
    at = mremap(at, OWN_BYTES / 2, OWN_BYTES, MREMAP_MAYMOVE);
    if (at == MAP_FAILED) target_fail("cannot move it");
    memset(at, 1, OWN_BYTES);
}

// It is there before the call returns.
static void populated(char *unused) {
    (void)unused;
    usleep(2000);  // a sample is due
    map(OWN_BYTES, PROT_READ | PROT_WRITE, MAP_POPULATE);
}

// The kernel refuses to unmap or move what is not there: the memory stays the program's.
static void refused(char *unused) {
    (void)unused;
    char *at = map(OWN_BYTES, PROT_READ | PROT_WRITE, 0);
    memset(at, 1, OWN_BYTES);
    if (!munmap(at, (size_t)1 << 47) || !munmap(at + 1, OWN_BYTES) || !munmap(at + 4096, (size_t)-8192))
        target_fail("unmapped it");
    if (mremap(at, (size_t)1 << 46, 4096, 0) != MAP_FAILED) target_fail("moved it");
}

static pthread_barrier_t filled, over;

static __attribute__((noinline)) void use_stack(void) {
    volatile char room[STACK_BYTES];
    for (size_t i = 0; i < STACK_BYTES; i += 4096) room[i] = 1;
    if (!room[0]) target_fail("no stack");
}

static void *use_thread_stack(void *unused) {
    (void)unused;
    free(malloc(100));
    use_stack();
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&over);
    return NULL;
}

static void stacks(char *unused) {
    (void)unused;
    pthread_t thread;
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, use_thread_stack, NULL)) target_fail("no thread");
    pthread_barrier_wait(&filled);
}

static void main_stack(char *unused) {
    (void)unused;
    use_stack();
    use_stack();
}

static void library(char *plugin) {
    void *opened = dlopen(plugin, RTLD_NOW);
    void (*touch)(void) = NULL;
    if (opened) touch = dlsym(opened, "touch_data");
    if (!touch) target_fail("no plugin");
    touch();
}

static void *map_first(void *unused) {
    reserved(unused);
    return NULL;
}

// A thread that has not called malloc when it maps.
static void thread_maps(char *unused) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, map_first, unused) || pthread_join(thread, NULL))
        target_fail("no thread");
}

// A block that is touched when nothing is allocated any more.
static void late_block(char *unused) {
    (void)unused;
    char *volatile block = malloc(1 << 20);
    memset(block, 1, 1 << 20);
    free(block);
}

// Blocks of some pages that are not used, such as buffers that are never filled.
static void unused_blocks(char *unused) {
    enum { BLOCKS = 128, BYTES = 40 << 10 };
    static char *volatile block[BLOCKS];
    (void)unused;
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BYTES);
        usleep(100);
    }
    for (int i = 0; i < BLOCKS; i++) free(block[i]);
}

static void *work_alone(void *unused) {
    char text[2] = "1";
    // Until the kernel has nothing to tell of the first thread any more.
    for (int tries = 0; text[0] != '0' && tries < 10000; tries++, usleep(1000)) {
        int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
        if (fd < 0 || read(fd, text, 1) != 1) target_fail("cannot read statm");
        close(fd);
    }
    memset(mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, OWN_BYTES);
    (void)unused;
    free(malloc(1));
    exit(17);
}

// The process goes on without its first thread.
static void first_thread_ends(char *unused) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work_alone, unused)) target_fail("no thread");
    pthread_exit(NULL);
}

// As interpreters with pools of their own do it: mapped bit by bit and given back as a whole, time and again.
static void come_and_go(bool calls) {
    enum { TIMES = 6, PARTS = 24 };
    for (int time = 0; time < TIMES; time++) {
        char *part[PARTS];
        for (int i = 0; i < PARTS; i++) {
            part[i] = map(OWN_BYTES / PARTS, PROT_READ | PROT_WRITE, 0);
            memset(part[i], 1, OWN_BYTES / PARTS);
            if (calls) free(malloc(100));
        }
        munmap(map(OWN_BYTES / PARTS, PROT_READ | PROT_WRITE, 0), OWN_BYTES / PARTS);  // a sample's occasion
        for (int i = 0; i < PARTS; i++) munmap(part[i], OWN_BYTES / PARTS);
    }
}

static void comes_and_goes(char *unused) {
    (void)unused;
    come_and_go(true);
}

static void between_calls(char *unused) {
    (void)unused;
    come_and_go(false);
}

// As Go does it, and whoever has no libc.
static void map_by_bare_call(char *unused) {
    (void)unused;
    long at =
        syscall(SYS_mmap, NULL, (long)OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (at == -1) target_fail("cannot map");
    memset((char *)at, 1, OWN_BYTES);
}

// Below the heap's memory and above it at the same time.
static void program_break(char *unused) {
    char *at = sbrk(OWN_BYTES);
    (void)unused;
    if (at == (void *)-1) target_fail("cannot move the break");
    memset(at, 1, OWN_BYTES);
}

// A private file's pages are the process's own once they are written, also when they cannot be written any more.
static void written_file(char *unused) {
    char name[] = "/tmp/own_kinds_XXXXXX";
    int fd = mkstemp(name);
    (void)unused;
    if (fd < 0 || unlink(name) || ftruncate(fd, OWN_BYTES)) target_fail("no file");
    char *at = mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) target_fail("cannot map it");
    for (size_t i = 0; i < OWN_BYTES; i += 4096) at[i] = 1;
    if (mprotect(at, OWN_BYTES, PROT_READ)) target_fail("cannot close it");
}

// More than the hooks follow.
static void many_ranges(char *unused) {
    enum { RANGES = 6000, RANGE_BYTES = OWN_BYTES / RANGES / 4096 * 4096 + 4096, APART_BYTES = 64 << 10 };
    char *from = mmap(NULL, (size_t)RANGES * APART_BYTES, PROT_NONE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    (void)unused;
    if (from == MAP_FAILED) target_fail("cannot reserve");
    for (size_t i = 0; i < RANGES; i++) {
        char *at = mmap(from + i * APART_BYTES, RANGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (at == MAP_FAILED) target_fail("cannot map one of them");
        memset(at, 1, RANGE_BYTES);
    }
}

static void *fill_and_wait(void *unused) {
    use_stack();
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&over);
    return unused;
}

// Of threads that never call malloc.
static void silent_stacks(char *unused) {
    pthread_t thread;
    pthread_barrier_init(&filled, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, fill_and_wait, unused)) target_fail("no thread");
    pthread_barrier_wait(&filled);
}

// The kernel shows the process its page tables no more.
static void undumpable(char *unused) {
    if (prctl(PR_SET_DUMPABLE, 0)) target_fail("cannot hide");
    scattered(unused);
}

static int run_filtered(char **command, const struct sock_fprog *program) {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program))
        target_fail("cannot install the filter");
    execv(command[0], command);
    target_fail("cannot run the command");
    return 99;
}

// A sandbox that answers as it likes to what it does not know.
static int without_close_range(char **command) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 436, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    return run_filtered(command, &(struct sock_fprog){sizeof code / sizeof *code, code});
}

// A kernel that cannot search page tables: the ioctl is unknown.
static int without_search(char **command) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)_IOC(_IOC_READ | _IOC_WRITE, 'f', 16, 96), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    return run_filtered(command, &(struct sock_fprog){sizeof code / sizeof *code, code});
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(char *argument);
    } kinds[] = {{"reserved", reserved},
                 {"mapped_over", mapped_over},
                 {"scattered", scattered},
                 {"only_read", only_read},
                 {"moved", moved},
                 {"refused", refused},
                 {"populated", populated},
                 {"stacks", stacks},
                 {"main_stack", main_stack},
                 {"library", library},
                 {"thread_maps", thread_maps},
                 {"late_block", late_block},
                 {"unused_blocks", unused_blocks},
                 {"first_thread_ends", first_thread_ends},
                 {"bare_call", map_by_bare_call},
                 {"program_break", program_break},
                 {"written_file", written_file},
                 {"many_ranges", many_ranges},
                 {"silent_stacks", silent_stacks},
                 {"undumpable", undumpable},
                 {"comes_and_goes", comes_and_goes},
                 {"between_calls", between_calls}};
    if (argc > 2 && !strcmp(argv[1], "without_search")) return without_search(argv + 2);
    if (argc > 2 && !strcmp(argv[1], "without_close_range")) return without_close_range(argv + 2);
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(argv[1], kinds[i].name)) continue;
        free(malloc(1));
        fill_heap();
        kinds[i].run(argv[2]);
        return 17;
    }
    target_fail("usage: own_kinds KIND [PLUGIN | COMMAND...]");
    return 99;
}
